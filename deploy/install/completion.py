#!/usr/bin/python3
"""Prints bash completion for a program and all its commands, made from their help texts: completion.py PROGRAM."""

import os
import re
import sys

import help_text

# What a value is, by the words that help texts have for it.
FILES = ("FILE", "path", "DIR", "RUN")
SCRIPT = """# bash completion for {name}, made from its help texts.

_{id}_words() {{  # words that may follow the commands $1
  case "$1" in
{words}  esac
}}

_{id}_values() {{  # of option $2 of the commands $1: words; "<file>": a path; "<text>": anything. 1: it takes none
  case "$1 $2" in
{values}    *) return 1 ;;
  esac
}}

_{id}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} commands= word values at
  for ((at = 1; at < COMP_CWORD; ++at)); do
    word=${{COMP_WORDS[at]}}
    [[ $word == -* || " $(_{id}_words "$commands") " != *" $word "* ]] || commands+="${{commands:+ }}$word"
  done
  COMPREPLY=()
  if [[ $previous == -* ]]; then
    values=$(_{id}_values "$commands" "$previous") || values=$(_{id}_values "" "$previous") || values=none
    case "$values" in
      none) ;;
      "<file>") mapfile -t COMPREPLY < <(compgen -f -- "$current"); return ;;
      "<text>") return ;;
      *) mapfile -t COMPREPLY < <(compgen -W "$values" -- "$current"); return ;;
    esac
  fi
  mapfile -t COMPREPLY < <(compgen -W "$(_{id}_words "$commands")" -- "$current")
  [[ $current == -* || ${{#COMPREPLY[@]}} -gt 0 ]] || mapfile -t COMPREPLY < <(compgen -f -- "$current")
}}

complete -o filenames -F _{id} {name}
"""


def words(pages, command):
    """Subcommands, options, what a positional may be."""
    found = [row.names[0] for row in pages[command].rows("Subcommands")]
    found += [name for row in pages[command].options() for name in row.names]
    found += [choice for row in pages[command].rows("Positionals") for choice in row.choices() or named(row.text)]
    if command:  # options of the program itself may stand behind a command, too
        found += [name for row in pages[()].options() for name in row.names if name.startswith("--")]
    return " ".join(dict.fromkeys(found))


def named(text):
    """The words of a text that is nothing else: "captured, local or prefix"."""
    return re.findall(r"\w+", text.replace(" or ", " ")) if re.fullmatch(r"(\w+, )+\w+ or \w+", text) else []


def value_of(row):
    if row.choices():
        return " ".join(row.choices())
    text = row.value + " " + row.text
    is_path = any(word in text for word in FILES) or "director" in text or "file" in row.text
    return "<file>" if is_path else "<text>"


def main():
    program = sys.argv[1]
    name = os.path.basename(program)
    pages = help_text.read_all(program)
    cases, values = "", ""
    for command in pages:
        key = " ".join(command)
        cases += f'    "{key}") echo "{words(pages, command)}" ;;\n'
        for row in pages[command].options():
            if row.value:
                patterns = " | ".join(f'"{key} {option}"' for option in row.names)
                values += f'    {patterns}) echo "{value_of(row)}" ;;\n'
    print(SCRIPT.format(name=name, id=name.replace("-", "_"), words=cases, values=values), end="")


if __name__ == "__main__":
    main()
