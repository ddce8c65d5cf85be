# SPDX-License-Identifier: Apache-2.0
"""What each language offers, read from the headers and modules: public members of exported C++ classes and exported free
functions, functions of the C headers, public type-bound procedures of Fortran. Imported by parity_table.py."""
import re

# Rooms that callers use; the others are how these work.
CPP_ROOMS = ("runtime", "mesh", "layout", "buffer", "fsdp", "ddp", "optim", "checkpoint", "plan")
CPP_FILES = {"runtime": ("lifetime.hpp", "device.hpp")}  # of a room with more than callers use
KEYWORDS = {"void", "bool", "if", "for", "while", "return", "switch", "sizeof", "noexcept", "decltype", "alignas", "operator", "requires"}


def without_comments(text):
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    return re.sub(r"^[ \t]*#[^\n]*(\\\n[^\n]*)*", "", text, flags=re.M)


def closing(text, start, pair="{}"):
    """The place behind the bracket that closes the one at `start`."""
    depth = 0
    for place in range(start, len(text)):
        depth += (text[place] == pair[0]) - (text[place] == pair[1])
        if depth == 0:
            return place + 1
    return len(text)


def without_bodies(text):
    """Text with every {...} replaced by ;"""
    result, place = [], 0
    while (brace := text.find("{", place)) >= 0:
        result.append(text[place:brace] + ";")
        place = closing(text, brace)
    return "".join(result) + text[place:]


def declared_names(text):
    """Names of the functions that statements declare; constructors and destructors of `skip` aside."""
    for statement in without_bodies(text).split(";"):
        statement = re.sub(r"\btemplate\s*<[^>]*>|OSTRAKA_API|\[\[\w+\]\]", "", statement)
        found = re.match(r"[^(=]*?([~\w]+)\s*\(", statement)
        if found and found[1] not in KEYWORDS and not re.search(r"\b(using|typedef|friend)\b", statement[:found.start(1)]):
            yield found[1]


def without_nested(text):
    """The body of a class without the bodies of classes inside it, which have labels of their own."""
    while found := re.search(r"\b(?:class|struct) [^;{()]*\{", text):
        text = text[:found.start()] + text[closing(text, found.end() - 1):]
    return text


def cpp_classes(text):
    """(name, public text, place, place behind it) of each exported class."""
    end = 0
    for found in re.finditer(r"\bclass OSTRAKA_API (\w+)[^;{]*\{", text):
        if found.start() < end:
            continue  # inside the one before
        end = closing(text, found.end() - 1)
        body = without_nested(text[found.end():end - 1])
        parts = re.split(r"\b(public|private|protected)\s*:(?!:)", body)
        public = "".join(part for label, part in zip(parts[1::2], parts[2::2]) if label == "public")
        yield found[1], public, found.start(), end


def cpp_operations(sources):
    """Class::member and room::function for each public operation of `sources`, a folder src/ostraka."""
    result = set()
    for room in CPP_ROOMS:
        for path in sorted((sources / room).glob("*.hpp")):
            if room in CPP_FILES and path.name not in CPP_FILES[room]:
                continue
            text, rest, place = without_comments(path.read_text()), "", 0
            for name, public, start, end in cpp_classes(text):
                rest += text[place:start]
                place = end
                result |= {f"{name}::{member}" for member in declared_names(public) if member.strip("~") != name}
            functions = re.findall(r"OSTRAKA_API\s[^;{=]*?\b(\w+)\s*\(", rest + text[place:])
            result |= {f"{room}::{name}" for name in functions}
    return result


def c_functions(headers):
    """The names of the C interface, the inline ones with it."""
    text = "".join(without_comments(path.read_text()) for path in sorted(headers.glob("*.h")))
    return set(re.findall(r"\b(ostraka_\w+)\s*\(", without_bodies(text.replace('extern "C" {', ""))))


def fortran_operations(folder):
    """type%procedure for each public type-bound procedure, and each public procedure that module ostraka hands on."""
    result = set()
    for path in sorted(folder.glob("*.f90")):
        text = re.sub(r"!.*", "", path.read_text())
        for name, body in re.findall(r"^ *type(?:, \w+)* :: ostraka_(\w+)_t\n(.*?)^ *end type", text, re.S | re.M):
            names = re.findall(r"^ *(?:procedure|generic), public(?:, nopass)? :: (\w+)", body, re.M)
            result |= {f"{name}%{procedure}" for procedure in names}
    module = re.sub(r"&\s*\n\s*", "", re.sub(r"!.*", "", (folder / "ostraka.f90").read_text()))
    for names in re.findall(r"only:([^\n]*)", module):
        result |= {name for name in re.findall(r"\bostraka_\w+", names) if not name.endswith("_t")}
    return result
