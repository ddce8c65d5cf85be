#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of operations in C++, C and Fortran. A gap that parity.txt does not explain is a violation, and so is a line of
parity.txt that explains nothing.

usage: parity_table.py SOURCE_TREE [C++_LIBRARY C_LIBRARY] [--markdown]

With libraries, names of the headers are looked up in their symbols, too (members defined in a header have none).
"""
import fnmatch
import re
import subprocess
import sys
from pathlib import Path

from operations import c_functions, cpp_operations, fortran_operations


class Explanations:
    """parity.txt, whose head says what its lines are."""
    def __init__(self, text):
        self.classes, self.equal, self.why = {}, {}, {kind: {} for kind in ("inside", "c++", "c", "fortran")}
        self.used = set()
        for line in filter(None, (re.sub(r"(^|\s)#.*", "", line).strip() for line in text.splitlines())):
            kind, rest = line.split(None, 1)
            if kind == "class":
                name, target = re.split(r"\s*=\s*", rest)
                self.classes[name] = target
            elif kind == "equal":
                name, target = re.split(r"\s*=\s*", rest)
                self.equal.setdefault(name, []).append(target)
            else:
                name, reason = re.split(r"\s+:\s+", rest, maxsplit=1)
                self.why[kind][name] = reason

    def reason(self, kind, name):
        for pattern, reason in self.why[kind].items():
            if fnmatch.fnmatchcase(name, pattern):
                self.used.add((kind, pattern))
                return reason
        return None

    def others(self, name, default):
        """What a name is called in the next language: one name or several."""
        if name in self.equal:
            self.used.add(("equal", name))
        return self.equal.get(name, [default])

    def stale(self):
        for kind in self.why:
            for pattern, reason in self.why[kind].items():
                if (kind, pattern) not in self.used and not reason.startswith("later:"):
                    yield f"parity.txt: '{kind} {pattern}' explains nothing"
        for name in self.equal:
            if ("equal", name) not in self.used:
                yield f"parity.txt: 'equal {name}' is not needed"


def c_name(name, classes):
    scope, function = name.split("::")
    scope = classes.get(scope, scope)
    return f"ostraka_{function}" if scope == "runtime" else f"ostraka_{scope}_{function}"


def fortran_name(name, objects):
    """ostraka_buffer_cast is buffer%cast, ostraka_initialize a procedure of its own."""
    rest = re.sub("_versioned$", "", name.removeprefix("ostraka_"))
    for kind in sorted(objects, key=len, reverse=True):
        if rest.startswith(kind + "_"):
            return f"{kind}%{rest[len(kind) + 1:]}"
    return name


def table(cpp, c, fortran, explanations):
    """(rows of C++, C, Fortran, why; violations)"""
    rows, problems, objects = [], [], {name.split("%")[0] for name in fortran if "%" in name}
    cpp_of, seen = {}, set()
    for name in sorted(cpp):
        found = [other for other in explanations.others(name, c_name(name, explanations.classes)) if other in c]
        for other in found:
            cpp_of.setdefault(other, []).append(name)
        if found or explanations.reason("inside", name):
            continue
        reason = explanations.reason("c++", name)
        rows.append((name, "-", "-", reason or ""))
        if reason is None:
            problems.append(f"{name} has no C function {c_name(name, explanations.classes)}")
    for name in sorted(c):
        others = explanations.others(name, fortran_name(name, objects))
        found = [other for other in others if other in fortran]
        seen |= set(found)
        why = ""
        if name not in cpp_of:
            why = explanations.reason("c", name)
            if why is None:
                problems.append(f"{name} is no operation of C++")
        if not found:
            reason = explanations.reason("fortran", name)
            why = "; ".join(filter(None, (why, reason)))
            if reason is None:
                problems.append(f"{name} has no Fortran procedure {others[0]}")
        rows.append((", ".join(cpp_of.get(name, ["-"])), name, ", ".join(found) or "-", why or ""))
    for name in sorted(fortran - seen):
        reason = explanations.reason("fortran", name)
        if reason is None:
            problems.append(f"{name} of Fortran is no operation of C")
        rows.append(("-", "-", name, reason or ""))
    return rows, problems + list(explanations.stale())


def symbols(library):
    """Demangled names of the exported functions, without arguments."""
    text = subprocess.run(["nm", "-DC", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return {re.sub(r"\[abi:\w+\]|\(.*|@.*", "", line.split(None, 2)[2]) for line in text.splitlines() if line.count(" ") >= 2}


def not_exported(cpp, c, sources, cpp_library, c_library):
    """Operations without a symbol, unless a header holds their body or makes them a template."""
    exported = {"::".join(name.split("::")[-2:]) for name in symbols(cpp_library)}
    headers = "".join(path.read_text() for path in sources.rglob("*.hpp"))
    for name in sorted(cpp - exported):
        function = name.split("::")[1]
        if not re.search(rf"\b{function}\s*\([^;{{}}]*\)[^;{{}}]*(:[^;{{}}]*)?\{{|\b{function}\s*\([^;{{}}]*\)[^;]*= (0|default);",
                         headers):
            yield f"{name} is declared but not exported"
    inline = {name for name in c if name + "_versioned" in c}
    for name in sorted(c - symbols(c_library) - inline):
        yield f"{name} is declared but not exported"


def printed(rows, markdown):
    if markdown:
        yield "| C++ | C | Fortran | |\n|---|---|---|---|"
        for row in rows:
            yield "| " + " | ".join("" if cell == "-" else cell if i == 3 else f"`{cell}`" for i, cell in enumerate(row)) + " |"
        return
    for row in (("C++", "C", "Fortran", ""), *rows):
        yield f"{row[0]:44} {row[1]:44} {row[2]:34} {row[3]}".rstrip()


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--markdown"]
    root = Path(arguments[0])
    cpp = cpp_operations(root / "src/ostraka")
    c = c_functions(root / "capi/include/ostraka")
    explanations = Explanations((root / "tests/architecture/parity.txt").read_text())
    rows, problems = table(cpp, c, fortran_operations(root / "fortran"), explanations)
    if len(arguments) > 2:
        problems += not_exported(cpp, c, root / "src/ostraka", *arguments[1:3])
    print("\n".join(printed(rows, "--markdown" in sys.argv)))
    print("\n".join(problems), file=sys.stderr if "--markdown" in sys.argv else sys.stdout)
    if "--markdown" not in sys.argv:
        whole = sum("-" not in row[:3] for row in rows)
        print(f"{len(rows)} operations, {whole} in all three languages, {len(problems)} violations")
    return 1 if problems or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
