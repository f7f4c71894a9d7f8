#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""usage: comments.py TREE <FILES

Prints the comments of C files, each in one line: FILE:LINE: TEXT
"""

import os
import re
import sys

TOKEN = re.compile(
    r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""", re.DOTALL
)


def main():
    for name in sys.stdin.read().split():
        with open(os.path.join(sys.argv[1], name), encoding="utf-8") as file:
            text = file.read()
        for token in TOKEN.finditer(text):
            if token[0].startswith("/"):
                comment = re.sub(r"\s*\n\s*\*?\s*", " ", token[0])
                print(f"{name}:{text.count(chr(10), 0, token.start()) + 1}: {comment}")


if __name__ == "__main__":
    main()
