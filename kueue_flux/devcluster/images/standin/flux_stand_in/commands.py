"""The commands of `flux` that start.sh uses."""

import argparse
import asyncio
import json
import os
import signal
import socket
import sys
from pathlib import Path

import zmq

from .broker import Message
from .files import Config
from .members import Lead, Worker

VERSION = "stand-in"


def broker(arguments: list[str]) -> int:
    """`flux broker`."""
    parser = argparse.ArgumentParser(prog="flux broker")
    parser.add_argument("--config-path", type=Path, required=True)
    parser.add_argument("-S", dest="attributes", action="append", default=[])
    parser.add_argument("program", nargs=argparse.REMAINDER)
    args = parser.parse_args(arguments)
    attributes = dict(text.split("=", 1) for text in args.attributes)
    config = Config.read(args.config_path)
    host = attributes.get("hostname") or socket.gethostname()
    if host not in config.hosts:
        raise SystemExit(f"flux-broker: {host} is not among the hosts of broker.toml")
    rank = config.hosts.index(host)

    async def main() -> int:
        member = Worker(config, rank, attributes) if rank else Lead(config, attributes, args.program)
        return await member.live()

    return asyncio.run(main())


def run(arguments: list[str]) -> int:
    """`flux run`."""
    parser = argparse.ArgumentParser(prog="flux run")
    parser.add_argument("-N", "--nodes", type=int, default=0)
    parser.add_argument("-n", "--ntasks", type=int, default=0)
    parser.add_argument("-v", "--verbose", action="count")
    parser.add_argument("--wait-event")
    parser.add_argument("argv", nargs=argparse.REMAINDER)
    args = parser.parse_args(arguments)
    argv = args.argv[1:] if args.argv[:1] == ["--"] else args.argv
    job = {"argv": argv, "nodes": args.nodes, "size": args.ntasks, "cwd": str(Path.cwd()), "env": dict(os.environ)}
    return ask({"type": "run", **job}, quiet=bool(args.wait_event))


def ask(message: Message, *, quiet: bool = False) -> int:
    """Send a request to this host's broker, print what comes back, and return its exit code."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as sock:
        sock.connect(os.environ["FLUX_URI"])
        send = [json.dumps(message).encode()]

        def hand_on(number: int, _frame: object) -> None:
            sock.send_multipart([json.dumps({"type": "kill", "signal": number}).encode()])

        if message["type"] == "run":
            signal.signal(signal.SIGTERM, hand_on)
            signal.signal(signal.SIGINT, hand_on)
        sock.send_multipart(send)
        while True:
            while not sock.poll(1000):
                if not Path("/proc", os.environ["FLUX_BROKER_PID"]).exists():
                    print("flux: the broker is gone", file=sys.stderr)
                    return 1
            answer = json.loads(sock.recv())
            if answer["type"] == "end":
                print(answer.get("output", ""), end="")
                print("" if quiet else answer.get("text", ""), end="", file=sys.stderr)
                return int(answer["code"])
            print(answer["text"], end="", flush=True, file=sys.stdout if answer["stream"] == 1 else sys.stderr)


def main(words: list[str]) -> int:
    """Find the command."""
    match words:
        case ["broker", *arguments]:
            return broker(arguments)
        case ["run", *arguments]:
            return run(arguments)
        case ["version", *_]:
            print(f"commands:    \t\t{VERSION}\nlibflux-core:\t\t{VERSION}")
            return 0
        case ["module", "load" | "remove", _] | ["config", "builtin", _]:
            return 0  # nothing is loaded, and no script is built in
        case ["kvs" | "job", *_] if "FLUX_URI" in os.environ:
            return ask({"type": "ask", "words": words})
    print(f"flux: the stand-in does not know `flux {' '.join(words)}'", file=sys.stderr)
    return 1
