# SPDX-License-Identifier: Apache-2.0
"""Checks what the example lorenz96 prints.
usage: lorenz96.py skill OUTPUT COMMAND ...    runs it, looks at the skill of the coarse models, writes what it printed
       lorenz96.py same_curve OUTPUT OUTPUT ...   what it printed on several numbers of ranks: the same training
The simulation is chaotic: another compiler gives another one, hence wide limits for its skill and no file to compare
with. On other numbers of ranks only the sums of gradients are rounded differently."""
import pathlib
import re
import subprocess
import sys


def losses(text):
    return [float(loss) for loss in re.findall(r"^step +\d+ +unexplained variance of U +([\d.]+)$", text, re.M)]


def rows(text):
    """Label: (without closure, with the mean, with the network)."""
    row = re.compile(r"^ *(\S.*?) +([-.\d]+) +([-.\d]+) +([-.\d]+)$", re.M)
    return {m[1]: tuple(map(float, m.groups()[1:])) for m in row.finditer(text)}


def skill_failures(text):
    """Measured with the network for 13 ensembles and another build: RMSE 0.43 to 0.53, 1.37 to 1.97, 4.2 to 4.9;
    correlations from 0.994, 0.92, 0.54 on; the loss ends at 0.092 to 0.105; long runs err by up to 0.22 and 4 %."""
    loss, row = losses(text), rows(text)
    failures = [] if len(loss) == 10 else [f"expected 10 losses, found {len(loss)}"]

    def expect(what, condition):
        if not condition:
            failures.append(what)

    def value(label):
        if label not in row:
            failures.append(f"no row '{label}'")
        return row.get(label, (float("nan"),) * 3)

    expect("the network explains 85 % of the variance of U", loss and loss[-1] < 0.15)
    expect("it learns while the model runs", loss and loss[-1] < 0.8 * loss[0])
    for time, most, ratio in (("0.5", 0.8, 0.3), ("1.0", 2.6, 0.4), ("2.0", 6.5, 0.8)):
        *others, network = value(f"RMSE of X after {time}")
        expect(f"RMSE below {most} and {ratio} of the others' at {time}", network < min(most, ratio * min(others)))
    for time, least in (("0.5", 0.98), ("1.0", 0.85), ("2.0", 0.25)):
        *others, network = value(f"anomaly correlation after {time}")
        expect(f"correlation above {least} and the others' at {time}", network > least and network > max(others))
    *others, network = value("RMSE below half a deviation until")
    expect("useful for twice the others' time", network > 2 * max(others))
    *others, network = map(abs, value("error of the mean of X"))
    expect("mean of X in a long run", network < 0.35 and network < min(others))
    *others, network = map(abs, value("relative error of its variance"))
    expect("variance of X in a long run", network < 0.1 and network < min(others) / 3)
    return failures


def same_curve_failures(texts):
    """The largest relative deviation of losses; what does not depend on the network is the same to the last digit."""
    curves = [losses(text) for text in texts]
    failures = [] if len(curves[0]) == 10 and len(texts) > 1 else ["expected two outputs with ten losses"]
    for text, curve in zip(texts[1:], curves[1:]):
        if len(curve) != len(curves[0]) or any(abs(a / b - 1) > 1e-8 for a, b in zip(curve, curves[0])):
            failures.append(f"losses {curves[0]} and {curve}")
        first, other = rows(texts[0]), rows(text)
        failures += [f"{label}: {first[label]} and {other.get(label)}" for label in first
                     if first[label][:2] != other.get(label, ())[:2]]
    return failures


def main():
    mode, arguments = sys.argv[1], sys.argv[2:]
    if mode == "skill":
        result = subprocess.run(arguments[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        print(result.stdout)
        pathlib.Path(arguments[0]).write_text(result.stdout)
        failures = skill_failures(result.stdout)
        if result.returncode != 0:
            failures.append(f"exit status {result.returncode}")
    else:
        failures = same_curve_failures([pathlib.Path(path).read_text() for path in arguments])
    for failure in failures:
        print("lorenz96: not so:", failure)
    sys.exit(1 if failures else 0)


main()
