#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the bind(c) interfaces, structs and constants of the Fortran module with the C headers.

usage: parity.py [--planted] SOURCE_FOLDER GFORTRAN

gfortran -fc-prototypes prints what C has to look like; both sides are brought to one spelling. It prints type(c_ptr) by
value and by reference alike, hence the text of the interfaces is read, too. --planted: expects mismatches to be found.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

FIRST_INTERFACE, INTERFACES = "ostraka_c.f90", "ostraka_c_*.f90"  # sorted, each uses earlier ones only
ONLY_IN_C = {"ostraka_mesh_create", "ostraka_mesh_create_on"}  # their twins for Fortran communicators end in _f
HANDLES = set()  # of the C headers: pointers to incomplete structs
RENAMED = {"REPLICATE": "KIND_REPLICATE", "SHARD": "KIND_SHARD", "PARTIAL": "KIND_PARTIAL"}  # functions have the names


def c_text(headers):
    """All headers without comments, preprocessor lines and inline functions."""
    text = "".join(path.read_text() for path in sorted(headers.glob("*.h")))
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"static inline.*?\n}\n", "", text, flags=re.S)
    return re.sub(r'^#.*$|extern "C" \{', "", text, flags=re.M)


def plain_type(text):
    """One spelling for a C type: handles are void*, no const, no blanks, fixed widths by their gfortran names."""
    text = re.sub(r"\bconst\b", "", text)
    text = re.sub(r"\bostraka_\w+_t\b", lambda found: "void*" if found[0] in HANDLES else found[0], text)
    text = re.sub(r"\bc_(\w+)_t\b", r"ostraka_\1_t", text)
    text = re.sub(r"\bint64_t\b", "long", text)
    text = re.sub(r"\b(int32_t|ostraka_status_t|MPI_Fint)\b", "int", text)
    return re.sub(r"\s+", "", text)


def arguments(text):
    """The types of an argument list; names are dropped, [] counts as *."""
    if text.strip() in ("", "void"):
        return []
    text = re.sub(r"int \(\*(\w+)\)\(\)", r"ostraka_fill_t \1", text)  # the only type of functions
    return [plain_type(re.match(r"(.*?)\w+\s*(?:\[\d*\])?$", part.strip(), re.S)[1]) for part in text.split(",")]


def c_functions(text):
    found = re.findall(r"([\w\s*]+?)\b(ostraka_\w+)\(([^;{}]*?)\);", text)
    return {name: (plain_type(result), arguments(args)) for result, name, args in found if "typedef" not in result}


def prototypes(compiler, path, folder):
    command = [compiler, f"-J{folder}", "-fc-prototypes", "-fsyntax-only", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def by_reference(source):
    """For each bound function its list of dummies: whether a type(c_ptr) is passed by reference (an address in C)."""
    source = re.sub(r"&\s*\n\s*", "", source)
    result, problems = {}, []
    for args, name, body in re.findall(r"(?:function|subroutine) c_\w+\(([^)]*)\)\s*bind\(c, name='(\w+)'\)(.*?)end ",
                                       source, re.S):
        how = {}
        for attributes, names in re.findall(r"type\(c_ptr\)(.*?)::(.*)", body):
            is_value = "value" in attributes
            if not is_value and not re.search(r"intent\((out|inout)\)|intent\(in\).*\(\*\)", attributes + names):
                problems.append(f"{name}: type(c_ptr) ::{names} has neither value nor intent(out|inout)")
            for dummy in names.split(","):
                how[re.sub(r"\(.*", "", dummy.strip())] = not is_value
        result[name] = [how.get(arg.strip(), False) for arg in args.split(",")]
    return result, problems


def fortran_functions(compiler, fortran, folder):
    functions, problems = {}, []
    prototypes(compiler, fortran / "ostraka_types.f90", folder)
    for file in [fortran / FIRST_INTERFACE, *sorted(fortran.glob(INTERFACES))]:
        references, found = by_reference(file.read_text())
        problems += found
        for result, name, args in re.findall(r"^([\w ]+?[ *]+)(ostraka_\w+) \((.*?)\);",
                                             prototypes(compiler, file, folder), re.M):
            types = arguments(args)
            for i, is_reference in enumerate(references[name][:len(types)]):
                if is_reference and types[i] == "void*":
                    types[i] = "void**"
            functions[name] = (plain_type(result), types)
    return functions, problems


def structs(text):
    """The members of each struct with their types, in order; alternative spelling of the name included."""
    result = {}
    for body, name in re.findall(r"typedef struct \w*\s*\{(.*?)\}\s*(\w+);", text, re.S):
        members = []
        for line in filter(str.strip, body.split(";")):
            type_text, member = re.match(r"\s*(.*?)(\w+)\s*$", line, re.S).groups()
            members.append((plain_type(type_text), member))
        result[re.sub(r"^c_", "ostraka_", name)] = members
    return result


def constants(pattern, text):
    return {name: int(number) for name, number in re.findall(pattern, text, re.M)}


def differences(what, in_c, in_fortran):
    for name in sorted(in_c.keys() | in_fortran.keys()):
        if name not in in_fortran:
            yield f"{what} {name} is missing in Fortran"
        elif name not in in_c:
            yield f"{what} {name} is missing in C"
        elif in_c[name] != in_fortran[name]:
            yield f"{what} {name}\n  C:       {in_c[name]}\n  Fortran: {in_fortran[name]}"


def compare(headers, fortran, compiler):
    """All differences, as lines of text, and how much was compared."""
    text = c_text(headers)
    HANDLES.update(re.findall(r"typedef struct \w+\* (ostraka_\w+_t);", text))
    with tempfile.TemporaryDirectory() as folder:
        functions, problems = fortran_functions(compiler, fortran, folder)
        types = structs(prototypes(compiler, fortran / "ostraka_types.f90", folder))
    spelled = {name: (result.replace("char*", "void*"), [arg.replace("char**", "void**") for arg in args])
               for name, (result, args) in c_functions(text).items() if name not in ONLY_IN_C}
    spelled_structs = {name: [(re.sub(r"^(long|char\*|ostraka_placement_t)\*$", "void*", kind), member) for kind, member in members]
                       for name, members in structs(text).items()}
    raw = "".join(path.read_text() for path in sorted(headers.glob("*.h")))
    numbers = {f"OSTRAKA_{RENAMED.get(name, name)}": number
               for name, number in constants(r"^#define OSTRAKA_(\w+) \(?(-?\d+)", raw).items()}
    source = (fortran / "ostraka_types.f90").read_text()
    problems += differences("function", spelled, functions)
    problems += differences("struct", spelled_structs, types)
    problems += differences("constant", numbers, constants(r"parameter :: (OSTRAKA_\w+) = (-?\d+)", source))
    exported = re.findall(r"\w+", " ".join(re.findall(r"only:(.*?)(?=\n  use|\n  implicit)",
                                                      (fortran / "ostraka.f90").read_text(), re.S)))
    problems += [f"module ostraka exports {name}" for name in exported if not name.lower().startswith("ostraka_")]
    counts = {"functions": functions, "structs": types, "constants": numbers, "names": exported}
    return problems, ", ".join(f"{len(found)} {what}" for what, found in counts.items())


PLANTED = [  # file, text, what it is replaced by: each must be noticed
    ("ostraka_c.f90", "(c_int64_t), intent(out) :: count, begin", "(c_int32_t), intent(out) :: count, begin"),
    ("ostraka_c.f90", "      type(c_ptr), value :: buffer, tensor\n", "      type(c_ptr) :: buffer, tensor\n"),
    ("ostraka_c.f90", "c_mesh_axis_size(mesh, axis, size)", "c_mesh_axis_size(axis, mesh, size)"),
    ("ostraka_c.f90", "(c_int32_t), value :: status\n", "(c_int32_t), intent(in) :: status\n"),
    ("ostraka_c_layout.f90", "(c_int64_t), value :: begin\n", "(c_int64_t), intent(in) :: begin\n"),
    ("ostraka_c_layout.f90", "layout_owners(layout, index, first, last)", "layout_owners(layout, first, index, last)"),
    ("ostraka_c_layout.f90", "type(c_ptr), intent(in) :: layouts(*)", "type(c_ptr), value :: layouts"),
    ("ostraka_c.f90", "(c_int64_t), intent(inout) :: in_use, peak", "(c_int32_t), intent(inout) :: in_use, peak"),
    ("ostraka_c.f90", "      type(c_ptr), value :: buffer, out\n    end", "      type(c_ptr) :: buffer, out\n    end"),
    ("ostraka_c_flat_buffer.f90", "flat_buffer_view(buffer, index, data,", "flat_buffer_view(index, buffer, data,"),
    ("ostraka_c_flat_buffer.f90", "name='ostraka_flat_buffer_data')", "name='ostraka_flat_buffer_date')"),
    ("ostraka_types.f90", "OSTRAKA_PROD = 4", "OSTRAKA_PROD = 5"),
    ("ostraka_types.f90", "OSTRAKA_MEMORY_TRANSIENT = 4", "OSTRAKA_MEMORY_TRANSIENT = 5"),
    ("ostraka_c_fsdp.f90", "main_gradient(module, name, dtype, data,", "main_gradient(module, dtype, name, data,"),
    ("ostraka_c_fsdp.f90", "(c_double), value :: learning_rate\n", "(c_double), intent(in) :: learning_rate\n"),
    ("ostraka_c_fsdp.f90", "bind(c, name='ostraka_optimizer_step')", "bind(c, name='ostraka_optimizer_stop')"),
    ("ostraka_c_ddp.f90", "ddp_gradient(ddp, name, dtype, data,", "ddp_gradient(ddp, dtype, name, data,"),
    ("ostraka_c_checkpoint.f90", "c_save(path, context, optimizer,", "c_save(context, path, optimizer,"),
    ("ostraka_c_checkpoint.f90", "c_chunks_name(chunks, index, name)", "c_chunks_name(index, chunks, name)"),
    ("ostraka_types.f90", "integer(c_int32_t) :: num_patterns", "integer(c_int64_t) :: num_patterns"),
    ("ostraka_c_plan.f90", "c_plan_add_unit(plan, name, count, parent, unit)", "c_plan_add_unit(plan, count, name, parent, unit)"),
    ("ostraka_c_plan.f90", "type(c_ptr), intent(in) :: plans(*)", "type(c_ptr), value :: plans"),
    ("ostraka_types.f90", "    real(c_double) :: network_bandwidth\n", "    integer(c_int64_t) :: network_bandwidth\n"),
    ("ostraka_types.f90", "OSTRAKA_UPDATE_ADAMW = 3", "OSTRAKA_UPDATE_ADAMW = 2"),
    ("ostraka_types.f90", "OSTRAKA_USES_AUTO = -1", "OSTRAKA_USES_AUTO = -2"),
    ("ostraka_types.f90", "    integer(c_int64_t) :: bucket_size\n", "    integer(c_int32_t) :: bucket_size\n"),
    ("ostraka_types.f90", "OSTRAKA_USER_FAILURE = 53", "OSTRAKA_USER_FAILURE = 54"),
    ("ostraka_types.f90", "OSTRAKA_ATOM_BLOCK = 3", "OSTRAKA_ATOM_BLOCK = 4"),
    ("ostraka_types.f90", "integer(c_int32_t) :: count = 1", "integer(c_int64_t) :: count = 1"),
    ("ostraka_types.f90", "    integer(c_int32_t) :: gradient_slots\n    integer(c_int32_t) :: broadcast\n",
     "    integer(c_int32_t) :: broadcast\n    integer(c_int32_t) :: gradient_slots\n"),
    ("ostraka.f90", "OSTRAKA_ZERO_3", "MAX_DIMS"),
]


def planted(headers, fortran, compiler):
    """The planted mismatches that were not found."""
    missed = []
    for file, text, replacement in PLANTED:
        with tempfile.TemporaryDirectory() as folder:
            for path in fortran.glob("*.f90"):
                (pathlib.Path(folder) / path.name).write_text(path.read_text())
            target = pathlib.Path(folder) / file
            assert text in target.read_text(), f"{file} has changed: '{text}' is not in it"
            target.write_text(target.read_text().replace(text, replacement))
            found, _ = compare(headers, pathlib.Path(folder), compiler)
        print(f"{file}: {replacement.strip()}\n  -> {found[0] if found else 'NOT FOUND'}")
        missed += [] if found else [replacement]
    return missed


def main():
    compiler, source = sys.argv[-1], pathlib.Path(sys.argv[-2])
    headers, fortran = source / "capi/include/ostraka", source / "fortran"
    if "--planted" in sys.argv:
        return len(planted(headers, fortran, compiler))
    problems, summary = compare(headers, fortran, compiler)
    print("\n".join([*problems, f"{summary}: {len(problems)} differences"]))
    return len(problems)


sys.exit(1 if main() else 0)
