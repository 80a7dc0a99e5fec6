"""The help texts of programs whose options CLI11 parses, taken apart: what man pages and completions are made from."""

import re
import subprocess

GROUP = re.compile(r"^([A-Z][^.]*):$")
OPTION = re.compile(r"^(-[^\s,]+(?:,-[^\s,]+)*)(?: (.*))?$")
# Parts of a footer that look as a group does.
FOOTERS = ("Environment", "Example", "Examples", "Exit codes")


class Row:
    """An option, a positional or a subcommand: `left` as shown, its names, what its value may be, what it is for."""

    def __init__(self, left):
        option = OPTION.match(left)
        self.left = left
        self.names = option.group(1).split(",") if option else [left.split(" ")[0]]
        value = (option.group(2) or "") if option else left[len(self.names[0]):].strip()
        self.value = re.split(r" ?\b(?:Excludes|Needs): ", value)[0]
        self.text = ""

    def choices(self):
        """What the value may be, if that is a list: TEXT:{A,F}, or skip|keep."""
        braces = re.search(r"\{([^}]*)\}", self.value)
        if braces:
            return braces.group(1).split(",")
        return self.value.split("|") if re.fullmatch(r"\w+(\|\w+)+", self.value) else []


class Help:
    """One command's help. `groups`: pairs of a name ("Options") and its rows. `about` and `footer`: lines."""

    def __init__(self, text):
        lines = text.rstrip("\n").split("\n")
        at = next(i for i, line in enumerate(lines) if line.startswith("Usage: "))
        self.about = lines[:at]
        self.usage = lines[at][len("Usage: "):]
        self.groups = []
        # Texts stand in one column. A row that reaches it has its text on the next line.
        self._column = next(line.index("Print this help") for line in lines if line.startswith("  -h,--help "))
        at += 1
        while at < len(lines):
            group = GROUP.match(lines[at])
            if group and group.group(1) not in FOOTERS:
                at = self._read_group(group.group(1), lines, at + 1)
            elif lines[at]:
                break
            else:
                at += 1
        self.footer = lines[at:]

    def _read_group(self, name, lines, at):
        rows = []
        while at < len(lines) and lines[at].startswith("  "):
            left, text = lines[at][2:self._column].strip(), lines[at][self._column:].strip()
            if lines[at][2] != " ":
                if lines[at][self._column - 1] != " ":  # longer than the column
                    left, text = lines[at].strip(), ""
                rows.append(Row(left))
            rows[-1].text = " ".join(part for part in (rows[-1].text, text) if part)
            at += 1
        self.groups.append((name, rows))
        return at

    def rows(self, group):
        return [row for name, rows in self.groups if name == group for row in rows]

    def options(self):
        return [row for _, rows in self.groups for row in rows if row.names[0].startswith("-")]


def read_all(program):
    """The help of each command by its words, (): of the program itself; of subcommands' subcommands, too."""
    pages = {}
    left = [()]
    while left:
        command = left.pop(0)
        done = subprocess.run([program, *command, "--help"], stdout=subprocess.PIPE, check=True)
        pages[command] = Help(done.stdout.decode())
        left += [command + (row.names[0],) for row in pages[command].rows("Subcommands")]
    return pages
