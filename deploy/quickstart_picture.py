#!/usr/bin/env python3
"""The picture of deploy/quickstart.sh: the field before the kill and after the restart, and the ladder over time.

    quickstart_picture.py watch CAIRN LOG         asks the daemon by `CAIRN ls --json`, until it is told to end
    quickstart_picture.py draw FOLDER SIZE FILE   makes FILE of what quickstart.sh has left in FOLDER

LOG is FOLDER/ladder.log. It has a line of JSON for each change: the time, and what the daemon listed, or null if none
answered. FOLDER/events has what quickstart.sh did: a time and a text a line.
"""
import json
import subprocess
import sys
import time

PAUSE_S = 0.1  # between two questions to the daemon
COLOUR_OF = {"captured": "#f9c74f", "local": "#43aa8b", "redundant": "#4d908e", "prefix": "#3a5a98"}
MEANING = {"captured": "captured: in the daemon's memory", "local": "local: synced in the node's cache",
           "redundant": "redundant: on other nodes, too", "prefix": "prefix: on the parallel file system"}


def listed(cairn):
    """Of each dataset its number, step and level; None: no daemon answered."""
    try:
        answer = subprocess.run([cairn, "ls", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=5)
        if answer.returncode != 0:
            return None
        rows = json.loads(answer.stdout)["datasets"]
    except (subprocess.TimeoutExpired, ValueError):
        return None
    return [[row["dataset"], row["step"], row["level"]] for row in rows if row["level"] in COLOUR_OF]


def watch(cairn, path):
    last = ""
    with open(path, "w", encoding="utf-8") as log:
        while True:
            now = time.time()
            rows = listed(cairn)
            text = json.dumps(rows)
            if text != last:
                log.write(f'{{"time": {now:.3f}, "rows": {text}}}\n')
                log.flush()
                last = text
            time.sleep(PAUSE_S)


def ladder(lines, end):
    """(dataset, level, from, until) of each time that the daemon told one level; and each dataset's step."""
    pieces, steps, open_pieces = [], {}, {}
    for line in lines + [{"time": end, "rows": []}]:
        now = {}
        for dataset, step, level in line["rows"] or []:
            now[dataset] = level
            steps[dataset] = step
        for dataset, (level, since) in list(open_pieces.items()):
            if now.get(dataset) != level:
                pieces.append((dataset, level, since, line["time"]))
                del open_pieces[dataset]
        for dataset, level in now.items():
            open_pieces.setdefault(dataset, (level, line["time"]))
    return pieces, steps


def silences(lines):
    """From when until when no daemon answered."""
    found, since = [], None
    for line in lines:
        if line["rows"] is None and since is None:
            since = line["time"]
        elif line["rows"] is not None and since is not None:
            found.append((since, line["time"]))
            since = None
    return found


def draw_fields(figure, places, folder, size):
    import numpy

    def field(name):
        return numpy.fromfile(f"{folder}/{name}.raw").reshape(size, size)

    before = numpy.load(f"{folder}/before.npy").reshape(size, size)
    after, undisturbed = field("restarted"), field("undisturbed")
    with open(f"{folder}/before.step", encoding="utf-8") as file:
        step = int(file.read())
    for place, shown, title in ((places[0], before, f"Before the kill: checkpoint of step {step}"),
                                (places[1], after, "After the restart: the result")):
        axis = figure.add_subplot(place)
        stride = max(1, size // 256)
        axis.imshow(shown[::stride, ::stride], cmap="inferno", vmin=0, vmax=float(before.max()), origin="lower",
                    extent=(0, size, 0, size), interpolation="nearest")
        axis.set_title(title, fontsize=9)
        axis.set_xticks([0, size])
        axis.set_yticks([0, size])
        axis.tick_params(labelsize=7, length=2)
    axis = figure.add_subplot(places[2])
    row = size // 4
    axis.plot(before[row], color="#f98e09", linewidth=1.4, label="before the kill")
    axis.plot(after[row], color="#57106e", linewidth=2.6, alpha=0.55, label="after the restart")
    axis.plot(undisturbed[row], color="black", linewidth=0.9, linestyle=(0, (4, 3)), label="never disturbed")
    axis.set_title(f"Temperature along row {row}", fontsize=9)
    axis.set_xlim(0, size)
    axis.set_ylim(0, None)
    axis.tick_params(labelsize=7, length=2)
    axis.legend(frameon=False, fontsize=7, loc="upper right")
    axis.spines[["top", "right"]].set_visible(False)


def draw_ladder(axis, lines, events):
    from matplotlib.patches import Patch

    start = min(lines[0]["time"], events[0][0])
    end = max(lines[-1]["time"], events[-1][0])
    pieces, steps = ladder(lines, end)
    datasets = sorted(steps)
    row_of = {dataset: row for row, dataset in enumerate(datasets)}
    for dataset, level, since, until in pieces:
        axis.barh(row_of[dataset], until - since, left=since - start, height=0.78, color=COLOUR_OF[level], linewidth=0)
    for since, until in silences(lines):
        axis.axvspan(since - start, until - start, color="#bbbbbb", alpha=0.6, linewidth=0)
    for number, (when, _) in enumerate(events, 1):
        axis.axvline(when - start, color="#c1121f", linewidth=0.9)
        axis.annotate(str(number), (when - start, 1), xycoords=("data", "axes fraction"), xytext=(0, 2),
                      textcoords="offset points", ha="center", fontsize=8, color="#c1121f", fontweight="bold")
    axis.set_xlim(0, end - start)
    axis.set_ylim(-0.6, len(datasets) - 0.4)
    shown = datasets[::max(1, len(datasets) // 12)]
    axis.set_yticks([row_of[dataset] for dataset in shown])
    axis.set_yticklabels([f"step {steps[dataset]}" for dataset in shown])
    axis.tick_params(labelsize=7, length=2)
    axis.set_xlabel("seconds", fontsize=8)
    axis.set_title("Each checkpoint's level, as the daemon told it", fontsize=9, pad=14)
    axis.spines[["top", "right"]].set_visible(False)
    levels = [level for level in COLOUR_OF if any(piece[1] == level for piece in pieces)]
    patches = [Patch(color=COLOUR_OF[level], label=MEANING[level]) for level in levels]
    patches.append(Patch(color="#bbbbbb", alpha=0.6, label="no daemon"))
    axis.legend(handles=patches, fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    axis.text(1.015, 0.0, "\n".join(f"{number}  {text}" for number, (_, text) in enumerate(events, 1)), fontsize=7,
              color="#c1121f", transform=axis.transAxes, va="bottom", linespacing=1.5)


def draw(folder, size, path):
    import matplotlib

    matplotlib.use("Agg")  # a picture, no window
    import matplotlib.pyplot as pyplot

    with open(f"{folder}/ladder.log", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    with open(f"{folder}/events", encoding="utf-8") as file:
        events = [(float(line.split(" ", 1)[0]), line.split(" ", 1)[1].strip()) for line in file]
    figure = pyplot.figure(figsize=(9.6, 6.2), layout="constrained")
    figure.suptitle("A solver that is killed, and goes on", fontsize=12)
    above, below = figure.subfigures(2, 1, height_ratios=[1, 1.1])  # the fields need no room for the ladder's legend
    draw_fields(above, above.add_gridspec(1, 3), folder, size)
    draw_ladder(below.add_subplot(), lines, events)
    # A writer of SVG takes no options for PNG, not even None.
    figure.savefig(path, dpi=100, **({"pil_kwargs": {"optimize": True}} if path.endswith(".png") else {}))


def main(words):
    if len(words) == 3 and words[0] == "watch":
        watch(words[1], words[2])
    elif len(words) == 4 and words[0] == "draw":
        draw(words[1], int(words[2]), words[3])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
