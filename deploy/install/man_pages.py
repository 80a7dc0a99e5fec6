#!/usr/bin/python3
"""Writes man pages of a program and all its commands from their help texts: man_pages.py PROGRAM SECTION FOLDER."""

import os
import subprocess
import sys

import help_text

TITLES = {"Example": "EXAMPLES", "Examples": "EXAMPLES", "Exit codes": "EXIT STATUS", "Environment": "ENVIRONMENT",
          "Subcommands": "COMMANDS", "Positionals": "ARGUMENTS"}


def plain(text):
    """`text` for roff: nothing in it is an order."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def as_it_stands(lines):
    """Lines that keep their breaks and columns."""
    while lines and not lines[-1]:
        lines = lines[:-1]
    return [".nf", *map(plain, lines), ".fi"] if lines else []


def row(entry):
    left = plain(entry.left)
    for name in entry.names:
        left = left.replace(plain(name), "\\fB" + plain(name) + "\\fR", 1)
    return [".TP", left, plain(entry.text)] if entry.text else [".TP", left, "\\&"]


def footer_sections(footer):
    """Of the text below the options: pairs of a section's name and its lines; "" for what has none."""
    sections = [("", [])]
    for line in footer:
        name, colon, rest = line.partition(":")
        if colon and name in help_text.FOOTERS:
            sections.append((TITLES[name], [rest.strip()] if rest.strip() else []))
        else:
            sections[-1][1].append(line)
    return sections


def page(name, section, version, command, pages):
    """The page of `command`: lines."""
    shown = pages[command]
    about = [line for line in shown.about if line]
    title = " ".join((name, *command))
    first = about[0]
    if first.startswith(name + ": "):
        first = first[len(name) + 2:]
    file_name = "-".join((name, *command))
    lines = [f'.TH "{plain(file_name).upper()}" "{section}" "" "{plain(version)}" "Cairn"',
             ".SH NAME", f"{plain(file_name)} \\- {plain(first.rstrip('.'))}",
             ".SH SYNOPSIS", ".B " + plain(title), plain(shown.usage[len(title):].strip())]
    # Commands without a text of their own show the program's.
    footer = footer_sections(shown.footer if not command or shown.footer != pages[()].footer else [])
    description = about[1:] + [line for line in footer[0][1]]
    if description:
        lines += [".SH DESCRIPTION", *as_it_stands(description)]
    for group, rows in shown.groups:
        lines.append(f".SH {TITLES.get(group, plain(group).upper())}")
        for entry in rows:
            lines += row(entry)
    for section_name, text in footer[1:]:
        lines += [f".SH {section_name}", *as_it_stands(text)]
    related = [()] + [other for other in pages if len(other) == 1] if not command else [command[:-1]]
    related += [other for other in pages if other[:-1] == command and command]
    names = ["-".join((name, *other)) for other in related if other != command]
    if names:
        lines += [".SH SEE ALSO", ", ".join(f"\\fB{plain(other)}\\fR({section})" for other in names)]
    return lines


def main():
    program, section, folder = sys.argv[1:]
    name = os.path.basename(program)
    version = subprocess.run([program, "--version"], stdout=subprocess.PIPE, check=True).stdout.decode().strip()
    pages = help_text.read_all(program)
    for command in pages:
        path = os.path.join(folder, "-".join((name, *command)) + "." + section)
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(page(name, section, version, command, pages)) + "\n")


if __name__ == "__main__":
    main()
