"""`dlc completion`: a script with which a shell completes the command line, made of what the parsers know."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from dlang.diagnostics import DlangError
from dlang.driver import read_source
from dlang.grammar import syntax as s
from dlang.grammar.parser import parse
from dlang.tools.arguments import HERE, OPTIONS, Parser, programs_of
from dlang.tools.command_line import COMMANDS, parser_of, parser_of_all
from dlang.tools.explain import codes

SHELLS = ("bash", "zsh", "fish")
NAMES = "names"
"""In the place of a shell: what the scripts ask."""

Files = Literal["none", "programs", "any", "folders"]
Kind = Literal["fn", "test", "bench", "option"]


@dataclass(frozen=True, slots=True)
class Words:
    """The completions of a place: some words, files, and names of a kind in the programs that stand on the line.

    taken: whether anything stands there at all.
    """

    choices: tuple[str, ...] = ()
    files: Files = "none"
    names: Kind | None = None
    taken: bool = True


@dataclass(frozen=True, slots=True)
class Option:
    names: tuple[str, ...]
    help: str
    value: Words


@dataclass(frozen=True, slots=True)
class Completed:
    """A command: its options, and what its other words may be. programs: whether options of `main` stand behind."""

    name: str
    help: str
    options: tuple[Option, ...]
    operands: Words
    programs: bool = False


def options(parser: Parser) -> None:
    parser.add_argument("shell", choices=(*SHELLS, NAMES), help="or, as the scripts ask, names: of a KIND in programs")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="KIND …", help=argparse.SUPPRESS)
    parser.set_defaults(refuse=parser.error)


def main(args: argparse.Namespace) -> int:
    if args.shell == NAMES:
        if not args.words or args.words[0] not in KINDS:
            args.refuse(f"expected a KIND of names, one of {', '.join(KINDS)}")
        print("".join(f"{name}\n" for name in names_in_files(args.words[0], args.words[1:])), end="")
        return 0
    if args.words:
        args.refuse(f"expected nothing behind `{args.shell}`")
    write = {"bash": bash, "zsh": zsh, "fish": fish}[args.shell]
    print(write(completed_commands()), end="")
    return 0


def completed_commands() -> list[Completed]:
    """All commands, as their parsers describe them; before them what stands before a command, whose name is empty."""
    names = Words(tuple(COMMANDS))
    first = Completed("", "", tuple(_options("", parser_of_all())), names)
    return [first, *(_completed(c.name, c.help, parser_of(c)) for c in COMMANDS.values())]


def _completed(name: str, help: str, parser: Parser) -> Completed:
    operands = [a for a in parser._actions if not a.option_strings and a.nargs != argparse.REMAINDER]
    remainders = {a.metavar for a in parser._actions if a.nargs == argparse.REMAINDER}
    words = [_words(name, a) for a in operands]
    choices = tuple(c for w in words for c in w.choices)
    files: Files = next((w.files for w in words if w.files != "none"), "none")
    return Completed(name, help, tuple(_options(name, parser)), Words(choices, files), programs=OPTIONS in remainders)


def _options(command: str, parser: argparse.ArgumentParser) -> Iterator[Option]:
    for action in parser._actions:
        if action.option_strings:
            yield Option(tuple(action.option_strings), _sentence(action.help or ""), _words(command, action))


def _words(command: str, action: argparse.Action) -> Words:
    """Returns the possible values of an argument: its choices, or what its name or the name of its value says."""
    if action.nargs == 0:
        return Words(taken=False)
    if action.choices is not None:
        return Words(tuple(c for c in map(str, action.choices) if c != NAMES))
    match action.dest:
        case "fn" | "grad" | "value_and_grad":
            return Words(names="fn")
        case "test":
            return Words(names="test")
        case "filter":
            return Words(names="bench" if command == "bench" else "test")
    match action.metavar:
        case "FILE" | "PATH":
            return Words(files="any" if action.option_strings else "programs")
        case "FILE.csv":
            return Words(files="any")
        case "DIR":
            return Words(files="folders")
        case "PASS[:N]" | "PASS,…":
            from dlang.dump_ir import passes

            return Words(tuple(passes()))
        case "CODE":
            return Words(tuple(codes()))
    return Words()


def _sentence(help: str) -> str:
    """The help of an option, as shells show it: without the signs that argparse replaces."""
    return " ".join(help.replace("%%", "%").split())


# ---- scripts ---------------------------------------------------------------------------------------------------------
# Scripts that complete command lines, in the languages of three shells.

# ---- bash ------------------------------------------------------------------------------------------------------------
_BASH = """\
# Completes `dlc` in bash: source <(dlc completion bash)
_dlc_words() { COMPREPLY=($(compgen -W "$1" -- "$current")); }
_dlc_files() {
  local IFS=$'\n'
  compopt -o filenames 2>/dev/null
  COMPREPLY=($(compgen "$@" -- "$current"))
}
_dlc_programs() {
  local IFS=$'\n'
  compopt -o filenames 2>/dev/null
  COMPREPLY=($(compgen -d -- "$current"; compgen -f -X '!*.dl' -- "$current"))
}
_dlc_names() {  # names of a kind in the programs on the line, whatever letters are in them
  local name quoted
  while IFS= read -r name; do
    case $current in
      "'"* | '"'*) [[ $name == "${current:1}"* ]] && COMPREPLY+=("$name") ;;
      *) printf -v quoted %q "$name"; [[ $quoted == "$current"* ]] && COMPREPLY+=("$quoted") ;;
    esac
  done < <("${COMP_WORDS[0]}" completion names "$1" "${COMP_WORDS[@]:1}" 2>/dev/null)
}
_dlc() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command= i
  [[ $current == "=" ]] && current=
  [[ $before == "=" ]] && before=${COMP_WORDS[COMP_CWORD-2]}
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --color) ((i++)); [[ ${COMP_WORDS[i]} == "=" ]] && ((i++)) ;;
      -*) ;;
      *) command=${COMP_WORDS[i]}; break ;;
    esac
  done
  COMPREPLY=()
  case "$command $before" in
VALUES
  esac
  if [[ $current == -* ]]; then
    case $command in
OPTIONS
    esac
  else
    case $command in
OPERANDS
    esac
  fi
}
complete -F _dlc dlc
"""


def bash(commands: Sequence[Completed]) -> str:
    values, options, operands = [], [], []
    for c in commands:
        label = shlex.quote(c.name)
        for o in c.options:
            if o.value.taken:
                names = "|".join(f"{shlex.quote(f'{c.name} {name}')}" for name in o.names)
                values.append(f"    {names}) {_bash_action(o.value)}; return ;;")
        names = " ".join(name for o in c.options for name in o.names)
        of_main = "; _dlc_names option" if c.programs else ""
        options.append(f"      {label}) _dlc_words {shlex.quote(names)}{of_main} ;;")
        operands.append(f"      {label}) {_bash_action(c.operands)} ;;")
    parts = {"VALUES": values, "OPTIONS": options, "OPERANDS": operands}
    return _filled(_BASH, parts)


def _bash_action(words: Words) -> str:
    if words.names is not None:
        return f"_dlc_names {words.names}"
    match words.files:
        case "programs":
            return "_dlc_programs"
        case "any":
            return "_dlc_files -f"
        case "folders":
            return "_dlc_files -d"
    return f"_dlc_words {shlex.quote(' '.join(words.choices))}"


# ---- zsh -------------------------------------------------------------------------------------------------------------
_ZSH = """\
#compdef dlc
# Completes `dlc` in zsh: put this as `_dlc` into a folder of $fpath, or: source <(dlc completion zsh)
_dlc_names() {
  local -a names=(${(f)"$($program completion names $1 ${(Q)words} 2>/dev/null)"})
  compadd -a names
}
_dlc() {
  local state line program=$words[1]
  local -A opt_args
  _arguments -C FIRST '1:command:->command' '*::argument:->argument'
  case $state in
    command)
      local -a commands=(
COMMANDS
      )
      _describe command commands ;;
    argument)
      case $line[1] in
ARGUMENTS
      esac ;;
  esac
}
if [[ ${funcstack[1]} == _dlc ]]; then _dlc "$@"; else compdef _dlc dlc; fi
"""


def zsh(commands: Sequence[Completed]) -> str:
    first, *subcommands = commands
    described = [f"        {shlex.quote(c.name.replace(':', chr(92) + ':') + ':' + c.help)}" for c in subcommands]
    arguments = [f"        {c.name}) {_zsh_of_main(c)}_arguments {' '.join(_zsh_arguments(c))} ;;" for c in subcommands]
    parts = {"COMMANDS": described, "ARGUMENTS": arguments}
    return _filled(_ZSH, parts).replace("FIRST", " ".join(_zsh_options(first.options)))


def _zsh_of_main(command: Completed) -> str:
    return "[[ $words[CURRENT] == -* ]] && _dlc_names option; " if command.programs else ""


def _zsh_arguments(command: Completed) -> Iterator[str]:
    yield from _zsh_options(command.options)
    yield shlex.quote(f"*:word:{_zsh_action(command.operands)}")


def _zsh_options(options: Sequence[Option]) -> Iterator[str]:
    for o in options:
        help = o.help.replace("[", "(").replace("]", ")").replace(":", ",")
        value = f":value:{_zsh_action(o.value)}" if o.value.taken else ""
        for name in o.names:
            joined = "=" if o.value.taken and name.startswith("--") else ""
            yield shlex.quote(f"{name}{joined}[{help}]{value}")


def _zsh_action(words: Words) -> str:
    if words.names is not None:
        return f" _dlc_names {words.names}"  # behind a space it gets no words but these
    match words.files:
        case "programs":
            return '_files -g "*.dl(-.)"'
        case "any":
            return "_files"
        case "folders":
            return "_files -/"
    return f"({' '.join(words.choices)})" if words.choices else " "


# ---- fish ------------------------------------------------------------------------------------------------------------
_FISH = """\
# Completes `dlc` in fish: dlc completion fish > ~/.config/fish/completions/dlc.fish
function __dlc_command
    set -l words (commandline -opc)
    set -e words[1]
    while set -q words[1]
        switch $words[1]
            case --color
                set -e words[1]
            case '-*'
            case '*'
                echo $words[1]
                return 0
        end
        set -e words[1]
    end
    return 1
end
function __dlc_names
    set -l words (commandline -opc)
    $words[1] completion names $argv $words[2..-1] 2>/dev/null
end
complete -c dlc -f
"""


def fish(commands: Sequence[Completed]) -> str:
    first, *subcommands = commands
    begin = "complete -c dlc -n 'not __dlc_command >/dev/null'"
    lines = [f"{begin} {_fish_option(o)}" for o in first.options]
    lines += [f"{begin} -a {c.name} -d {_fish_quoted(c.help)}" for c in subcommands]
    for c in subcommands:
        begin = f"complete -c dlc -n 'string match -q -- {c.name} (__dlc_command)'"
        lines += [f"{begin} {_fish_option(o)}" for o in c.options]
        if operands := _fish_words(c.operands):
            lines.append(f"{begin} {operands}")
        if c.programs:
            lines.append(f"{begin} -a '(__dlc_names option)'")
    return _FISH + "\n".join(lines) + "\n"


def _fish_option(o: Option) -> str:
    names = [f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in o.names]
    value = f"{'-r' if o.value.files == 'any' else '-x'} {_fish_words(o.value)}" if o.value.taken else ""
    return " ".join([*names, *([value.strip()] if value else []), f"-d {_fish_quoted(o.help)}"])


def _fish_words(words: Words) -> str:
    if words.names is not None:
        return f"-a '(__dlc_names {words.names})'"
    match words.files:
        case "programs":
            return "-k -a '(__fish_complete_suffix .dl)'"
        case "any":
            return "-F"
        case "folders":
            return "-a '(__fish_complete_directories)'"
    return f"-a {_fish_quoted(' '.join(words.choices))}" if words.choices else ""


def _fish_quoted(text: str) -> str:
    """Quotes a text for fish by single quotes, in which it knows two escapes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


# ---- all -------------------------------------------------------------------------------------------------------------
def _filled(template: str, parts: dict[str, list[str]]) -> str:
    for name, lines in parts.items():
        template = template.replace(f"\n{name}\n", "\n" + "\n".join(lines) + "\n")
    return template


def names_in_files(kind: str, line: Sequence[str]) -> list[str]:
    """The names of a kind in the programs that are named by a command line; of tests and benchmarks, if none is, in the
    folder that one is in."""
    words = [word for k, word in enumerate(line) if k or word not in COMMANDS]
    paths = [word for word in words if word.endswith(".dl") or os.path.isdir(word)]
    if not paths and kind in ("test", "bench"):
        paths = list(HERE)
    return list(dict.fromkeys(name for path in paths for item in _items(path) for name in KINDS[kind](item)))


def _items(path: str) -> Iterator[s.Item]:
    try:
        for file in programs_of(path):
            yield from parse(read_source(file))[0].items
    except DlangError:
        return


def _functions(item: s.Item) -> list[str]:
    return [item.name] if isinstance(item, s.Fn) else []


def _tests(item: s.Item) -> list[str]:
    return [item.name] if isinstance(item, s.Test) else []


def _benches(item: s.Item) -> list[str]:
    return [item.name] if isinstance(item, s.Bench) else []


def _options_of_main(item: s.Item) -> list[str]:
    """Lists the options of a program: the parameters of `main`."""
    if not isinstance(item, s.Fn) or item.name != "main":
        return []
    bound = [p.pattern.name for p in item.parameters if isinstance(p.pattern, s.PatternName)]
    return [f"--{name.replace('_', '-')}" for name in bound]


KINDS: dict[str, Callable[[s.Item], list[str]]] = {
    "fn": _functions,
    "test": _tests,
    "bench": _benches,
    "option": _options_of_main,
}
