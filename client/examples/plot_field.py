#!/usr/bin/env python3
"""Draws a field of a run as it went on: one picture per dataset in one colour scale, and its extremes below.

    plot_field.py PREFIX [VARIABLE] [-o FILE] [--pictures N]

It reads the prefix through cairn.open, without a daemon: the fields of the datasets that it shows, and of the others
only the least and greatest values, if the writers noted them. Of a field of three dimensions it shows the middle plane.
"""
import argparse
import datetime
import os
import sys

import matplotlib

matplotlib.use("Agg")  # a picture, no window
import matplotlib.pyplot as pyplot
import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import cairn
import cairn_reader


COLOURS = matplotlib.colormaps["inferno"].resampled(96)  # as smooth to the eye as 256, and a smaller picture


def is_field(variables, name):
    """Of a shape that all ranks share, with two or more dimensions."""
    return name in variables and variables[name].kind.name in ("GLOBAL_ARRAY", "JOINED_ARRAY") and (
        variables[name].ndim >= 2)


def first_field(variables):
    for name in variables:
        if is_field(variables, name):
            return name
    raise SystemExit("there is no field of two or more dimensions")


def plane(variable):
    """Its last two dimensions, in the middle of the others."""
    return variable[tuple(extent // 2 for extent in variable.shape[:-2]) + (Ellipsis,)]


def extremes(variable):
    if variable.min is not None:
        return variable.min, variable.max
    field = variable[...]
    return field.min(), field.max()


def evenly(items, count):
    """At most `count` of them, with the first and the last."""
    places = numpy.linspace(0, len(items) - 1, min(count, len(items)))
    return [items[i] for i in sorted({int(round(place)) for place in places})]


def draw_pictures(figure, grid, run, shown, name, low, high):
    axes = []
    for place, dataset in enumerate(shown):
        axis = figure.add_subplot(grid[place // 4, place % 4])
        image = axis.imshow(plane(run[dataset][name]), cmap=COLOURS, vmin=low, vmax=high, origin="lower",
                            interpolation="nearest")
        axis.set_title(f"step {dataset.step}", fontsize=10, pad=4)
        axis.tick_params(labelsize=7, length=2)
        if place % 4 == 0:
            axis.set_ylabel("row", fontsize=8)
        if place // 4 == (len(shown) - 1) // 4:
            axis.set_xlabel("column", fontsize=8)
        axes.append(axis)
    bar = figure.colorbar(image, ax=axes, fraction=0.025, pad=0.015)
    bar.set_label(name, fontsize=9)
    bar.ax.tick_params(labelsize=8)


def draw_extremes(axis, datasets, ranges, shown, name):
    steps = [dataset.step for dataset in datasets]
    least, greatest = zip(*ranges)
    axis.fill_between(steps, least, greatest, color="#f98e09", alpha=0.15, linewidth=0)
    axis.plot(steps, greatest, color="#bc3754", marker="o", markersize=4, label="greatest")
    axis.plot(steps, least, color="#57106e", marker="o", markersize=4, label="least")
    axis.set_xlabel("step, and when its checkpoint was taken", fontsize=9)
    axis.set_ylabel(name, fontsize=9)
    axis.set_xticks([dataset.step for dataset in shown])
    axis.set_xticklabels([
        f"{dataset.step}\n{datetime.datetime.fromtimestamp(dataset.created):%H:%M:%S}" for dataset in shown])
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="y", color="#dddddd", linewidth=0.6)
    axis.legend(frameon=False, fontsize=8, loc="best")


def draw(run, name, pictures):
    datasets = [dataset for dataset in run.datasets if not dataset.files]
    if not datasets:
        raise SystemExit(f"{run.prefix}: no dataset of variables")
    name = name or first_field(run[datasets[-1]])
    datasets = [dataset for dataset in datasets if is_field(run[dataset], name)]
    if not datasets:
        raise SystemExit(f"{run.prefix}: in no dataset {name} is a field of two or more dimensions")
    ranges = [extremes(run[dataset][name]) for dataset in datasets]
    shown = evenly(datasets, pictures)
    shape = " x ".join(str(extent) for extent in run[datasets[-1]][name].shape)
    rows = (len(shown) + 3) // 4
    figure = pyplot.figure(figsize=(9.6, 2.35 * rows + 2.7), layout="constrained")
    figure.suptitle(f"{name}, {shape}: {len(datasets)} checkpoints of {datasets[-1].nranks} ranks", fontsize=12)
    grid = figure.add_gridspec(rows + 1, 4, height_ratios=[1] * rows + [0.9])
    draw_pictures(figure, grid, run, shown, name, min(low for low, _ in ranges), max(high for _, high in ranges))
    draw_extremes(figure.add_subplot(grid[rows, :]), datasets, ranges, shown, name)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prefix", metavar="PREFIX", help="the run's directory")
    parser.add_argument("variable", metavar="VARIABLE", nargs="?", help="[the first field of two or more dimensions]")
    parser.add_argument("-o", "--out", metavar="FILE", default="field.png", help="[field.png]")
    parser.add_argument("--pictures", metavar="N", type=int, default=8, help="at most so many datasets [8]")
    options = parser.parse_args()
    if options.pictures < 1:
        parser.error("--pictures needs a number from 1 on")
    try:
        figure = draw(cairn.open(options.prefix), options.variable, options.pictures)
        figure.savefig(options.out, dpi=100, pil_kwargs={"optimize": True} if options.out.endswith(".png") else None)
    except cairn_reader.ReadError as error:
        raise SystemExit(f"plot_field.py: {error}")


if __name__ == "__main__":
    main()
