"""`python -m tests.model`: explores the model of a drop."""

import argparse
import sys

from tests.model.drop import MUTATIONS, Model, explore, start


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--producers", type=int, default=1)
    parser.add_argument("--consumers", type=int, default=1)
    parser.add_argument("--faults", type=int, default=2)
    parser.add_argument("--replays", type=int, default=1)
    parser.add_argument("--mutate", default="", choices=["", *MUTATIONS])
    arguments = parser.parse_args()
    model = Model(arguments.faults, arguments.replays, arguments.mutate)
    states, way = explore(model, start(arguments.producers, arguments.consumers))
    sys.stdout.write("\n  ".join(way) if way else f"holds in all {states} states")
    sys.stdout.write("\n")
    return 1 if way else 0


if __name__ == "__main__":
    sys.exit(main())
