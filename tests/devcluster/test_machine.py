"""Undoing what Docker did to the machine: its rules go, everybody else's stay, and what is left is named."""

from dataclasses import replace

import pytest

from kueue_flux.devcluster import limits, machine
from kueue_flux.devcluster.machine import Snapshot

EMPTY = Snapshot(
    rules={"iptables": [], "ip6tables": []},
    links=["lo", "eth0"],
    mounts=[],
    cgroups=[],
    sysctls={"net/ipv4/ip_forward": "0"},
    processes=[],
)
# what dockerd 20.10 with one published port makes of an empty firewall
DOCKERS = [
    "filter :FORWARD DROP",
    "filter :DOCKER -",
    "filter :DOCKER-USER -",
    "filter -A FORWARD -j DOCKER-USER",
    "filter -A FORWARD -o docker0 -j DOCKER",
    "filter -A FORWARD -i br-0123456789ab -o br-0123456789ab -j ACCEPT",
    "filter -A DOCKER-USER -j RETURN",
    "nat :DOCKER -",
    "nat -A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER",
    "nat -A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE",
    "nat -A POSTROUTING -s 172.18.0.3/32 -d 172.18.0.3/32 -p tcp -m tcp --dport 6443 -j MASQUERADE",
    "nat -A DOCKER -i docker0 -j RETURN",
]


def test_every_rule_chain_and_policy_of_docker_is_taken_away():
    commands = [" ".join(command) for command in machine.undo_rules([], DOCKERS)]
    assert commands == [
        "-t filter -D FORWARD -j DOCKER-USER",
        "-t filter -D FORWARD -o docker0 -j DOCKER",
        "-t filter -D FORWARD -i br-0123456789ab -o br-0123456789ab -j ACCEPT",
        "-t nat -D PREROUTING -m addrtype --dst-type LOCAL -j DOCKER",
        "-t nat -D POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE",
        "-t nat -D POSTROUTING -s 172.18.0.3/32 -d 172.18.0.3/32 -p tcp -m tcp --dport 6443 -j MASQUERADE",
        "-t filter -F DOCKER",
        "-t filter -F DOCKER-USER",
        "-t nat -F DOCKER",
        "-t filter -X DOCKER",
        "-t filter -X DOCKER-USER",
        "-t nat -X DOCKER",
        "-t filter -P FORWARD ACCEPT",
    ]


@pytest.mark.parametrize(
    "rule",
    [
        "filter -A INPUT -p tcp -m tcp --dport 22 -j ACCEPT",
        "filter :MINE -",
        "nat -A POSTROUTING -s 10.0.0.0/8 -o eth0 -j MASQUERADE",
        'filter -A INPUT -m comment --comment "a docker0 of words" -j DROP',
    ],
)
def test_a_rule_that_somebody_else_added_meanwhile_stays(rule):
    assert machine.undo_rules([], [rule]) == []


def test_docker_rules_that_were_there_before_stay():
    assert machine.undo_rules(DOCKERS, DOCKERS) == []


def test_a_policy_goes_back_to_what_it_was():
    before = ["filter :FORWARD REJECTED"]
    assert machine.undo_rules(before, ["filter :FORWARD DROP"]) == [["-t", "filter", "-P", "FORWARD", "REJECTED"]]


def test_nothing_changed_is_nothing_left():
    assert machine.leftovers(EMPTY, EMPTY) == []


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"links": ["eth0", "lo", "veth0123456"]}, "links: veth0123456"),
        ({"mounts": ["/run/docker/netns/1"]}, "mounts: /run/docker/netns/1"),
        ({"cgroups": ["/sys/fs/cgroup/memory/docker"]}, "cgroups: /sys/fs/cgroup/memory/docker"),
        ({"processes": ["17 dockerd"]}, "processes: 17 dockerd"),
        ({"folders": ["/run/docker"]}, "folders: /run/docker"),
        ({"sysctls": {"net/ipv4/ip_forward": "1"}}, "sysctl net/ipv4/ip_forward: 0 became 1"),
        (
            {"rules": {"iptables": ["filter -A FORWARD -j DOCKER"], "ip6tables": []}},
            "iptables rule: filter -A FORWARD -j DOCKER",
        ),
    ],
)
def test_each_kind_of_leftover_is_named(changed, line):
    assert machine.leftovers(EMPTY, replace(EMPTY, **changed)) == [line]


def test_what_went_away_is_no_leftover():
    assert machine.leftovers(replace(EMPTY, links=["lo", "eth0", "tun0"]), EMPTY) == []


def test_a_snapshot_of_this_machine_survives_its_file():
    taken = Snapshot.take()
    assert "lo" in taken.links
    assert Snapshot.from_json(taken.to_json()) == taken


@pytest.fixture
def limit(monkeypatch, tmp_path):
    file = tmp_path / "max_user_instances"
    monkeypatch.setattr(limits, "_INSTANCES", file)
    monkeypatch.setattr(limits.os, "geteuid", lambda: 0)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return file


def test_a_low_inotify_limit_is_raised_and_put_back(limit):
    limit.write_text("128\n")
    limits.raise_limits()
    limits.raise_limits()  # a second `up` must not take its own value for the machine's
    assert int(limit.read_text()) >= 512
    limits.restore_limits()
    assert limit.read_text() == "128"
    limit.write_text("300")
    limits.restore_limits()
    assert limit.read_text() == "300"


def test_a_high_inotify_limit_is_left(limit):
    limit.write_text("65536\n")
    limits.raise_limits()
    limits.restore_limits()
    assert limit.read_text() == "65536\n"


def test_without_root_no_limit_is_touched(limit, monkeypatch):
    monkeypatch.setattr(limits.os, "geteuid", lambda: 1000)
    limit.write_text("128\n")
    limits.raise_limits()
    assert limit.read_text() == "128\n"
