"""Host lists: what is written, what is read, what is refused; random lists survive a round trip."""

import random
import string

import pytest

from kueue_flux.api import hostlist

# hosts and the one text that encode writes for them
ENCODED = [
    ([], ""),
    (["login"], "login"),
    (["mc-0"], "mc-0"),
    (["mc-0", "mc-1", "mc-2", "mc-3"], "mc-[0-3]"),
    (["mc-0", "mc-1", "mc-3"], "mc-[0-1,3]"),
    (["mc-3", "mc-1", "mc-2"], "mc-[3,1-2]"),
    (["mc-1", "mc-1"], "mc-[1,1]"),
    (["a", "b", "c"], "a,b,c"),
    (["a1", "b1", "a2"], "a1,b1,a2"),
    (["a0", "a1", "b4", "b5", "c"], "a[0-1],b[4-5],c"),
    (["n08", "n09", "n10", "n11"], "n[08-11]"),
    (["n098", "n099", "n100"], "n[098-100]"),
    (["n98", "n99", "n100"], "n[98-100]"),
    (["n0", "n00"], "n0,n00"),
    (["n01", "n1", "n2"], "n01,n[1-2]"),
    (["n9", "n010"], "n9,n010"),
    (["r1n2-eth0", "r1n2-eth1"], "r1n2-eth[0-1]"),
    (["n1x", "n2x"], "n1x,n2x"),
    (["0", "1", "2"], "[0-2]"),
    (["10.0.0.1", "10.0.0.2"], "10.0.0.[1-2]"),
    (["mc-0.net.svc", "mc-1.net.svc", "mc-2.net.svc"], "mc-[0-2].net.svc"),
    (["mc-0.net", "mc-1.svc", "mc-2"], "mc-0.net,mc-1.svc,mc-2"),
    (["mc.net", "mc.n7", "mc.n8"], "mc.net,mc.n[7-8]"),
    (["n09.x", "n10.x"], "n[09-10].x"),
]

# texts that decode reads though encode would not write them; the first ones are RFC 29's test vectors
DECODED = [
    ("[1-3,5-6]", ["1", "2", "3", "5", "6"]),
    ("foo[1-5]", ["foo1", "foo2", "foo3", "foo4", "foo5"]),
    ("foo[0-2]-eth2", ["foo0-eth2", "foo1-eth2", "foo2-eth2"]),
    ("foo1,foo1,foo1", ["foo1", "foo1", "foo1"]),
    ("[00-02]", ["00", "01", "02"]),
    ("[00-2]", ["00", "01", "02"]),
    ("foo[1,1,2,1]", ["foo1", "foo1", "foo2", "foo1"]),
    ("a[008-10]", ["a008", "a009", "a010"]),
    ("a[1-0010]", [f"a{n}" for n in range(1, 11)]),
    ("a[5,04]", ["a5", "a04"]),
    ("a[1-2],b,c[3]", ["a1", "a2", "b", "c3"]),
]

REFUSED = [
    ("a[", "unbalanced"),
    ("a]", "unbalanced"),
    ("a[[1]]", "unbalanced"),
    ("a[1-2", "unbalanced"),
    ("a[]", "neither a number nor a range"),
    ("a[1,]", "neither a number nor a range"),
    ("a[x]", "neither a number nor a range"),
    ("a[1-2-3]", "neither a number nor a range"),
    ("a[-1]", "neither a number nor a range"),
    ("a[\u0661]", "neither a number nor a range"),  # a digit, but not an ASCII one
    ("a[3-1]", "runs backwards"),
    ("a[0-1048576]", "too large"),
    ("a[1-9999999999999999999]", "too large"),
    ("a[1]b[2]", "more than one bracket"),
    (",a", "empty expression"),
    ("a,", "empty expression"),
    ("a,,b", "empty expression"),
    ("a b", "cannot have"),
    ("a[1] b", "cannot have"),
    ("n\u00f61", "cannot have"),
]


@pytest.mark.parametrize(("hosts", "text"), ENCODED, ids=[text or "empty" for _, text in ENCODED])
def test_encode(hosts, text):
    assert hostlist.encode(hosts) == text
    assert hostlist.decode(text) == hosts


@pytest.mark.parametrize(("text", "hosts"), DECODED, ids=[text for text, _ in DECODED])
def test_decode(text, hosts):
    assert hostlist.decode(text) == hosts


@pytest.mark.parametrize(("text", "why"), REFUSED, ids=[ascii(text) for text, _ in REFUSED])
def test_decode_refuses(text, why):
    with pytest.raises(ValueError, match=why):
        hostlist.decode(text)


@pytest.mark.parametrize("host", ["", "a b", "a,b", "a[1]", "n\u00f6", "a\n", "a1" + "0" * 18])
def test_encode_refuses(host):
    with pytest.raises(ValueError, match=r"host name|digits"):
        hostlist.encode(["fine", host])


def test_a_large_list_is_one_short_line():
    hosts = [f"mc-{rank}" for rank in range(20_000)]
    assert hostlist.encode(hosts) == "mc-[0-19999]"
    assert hostlist.decode("mc-[0-19999]") == hosts


def random_hosts(rng: random.Random) -> list[str]:
    """Up to 30 names that often share a prefix, follow each other, and differ in padding."""
    hosts: list[str] = []
    while len(hosts) < rng.randint(0, 30):
        prefix = rng.choice(["a", "b-", "rack1-n", "", "n0x", "x.y-"])
        width, start = rng.choice([0, 0, 2, 3]), rng.choice([0, 1, 8, 9, 98, 99, rng.randint(0, 10**6)])
        run = [f"{prefix}{number:0{width}d}" for number in range(start, start + rng.randint(1, 5))]
        hosts += rng.choice([run, run[::-1], [prefix + "".join(rng.choices(string.ascii_lowercase, k=3))]])
    return hosts


@pytest.mark.parametrize("seed", range(200))
def test_round_trip(seed):
    hosts = random_hosts(random.Random(seed))
    assert hostlist.decode(hostlist.encode(hosts)) == hosts
