#!/usr/bin/env python3
"""Writes the 1,797 digits of scikit-learn for train_digits: one line each, the label and 64 brightnesses of 0 to 16.

usage: write_digits.py FILE      (pip install scikit-learn)
"""

import sys


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        print("scikit-learn is not installed, and the digits are part of it: pip install scikit-learn", file=sys.stderr)
        return 77
    digits = load_digits()
    with open(sys.argv[1], "w", encoding="ascii") as file:
        for label, pixels in zip(digits.target, digits.data):
            print(label, *(int(pixel) for pixel in pixels), file=file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
