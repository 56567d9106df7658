"""Links names to the pages of the modules that declare them."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from dlang.tools.documentation.modules import Module


@dataclass(frozen=True, slots=True)
class Links:
    """places: for each module its public names, and the names of the entries that they belong to."""

    places: dict[str, dict[str, str]]

    def find(self, name: str, here: Module) -> str | None:
        """The address of a name as a module sees it, `relu`, `nn.relu`, `nn` or a type of another; from a page beside
        that of the module. None if it leads nowhere."""
        if name in self.places.get(here.name, {}):
            return self._address(here.name, name, here)
        module, dot, last = name.rpartition(".")
        if not dot:
            module = here.imports.get(name, "prelude")
        owner = self._module(module, here)
        if owner is not None and last in self.places[owner]:
            return self._address(owner, last, here)
        whole = self._module(name, here)
        return None if whole is None else address(whole)

    def type(self, name: str, here: Module) -> str | None:
        """The address of a type. One that is mentioned without a module may be of any that has it alone."""
        found = self.find(name, here)
        if found is not None:
            return found
        owners = [module for module, names in self.places.items() if name in names]
        return self._address(owners[0], name, here) if len(owners) == 1 else None

    def _module(self, path: str, here: Module) -> str | None:
        """The module that another one calls so; it is found in that one's folder first."""
        path = here.aliases.get(path, path)
        folder = here.name.rpartition(".")[0]
        return next((m for m in ([f"{folder}.{path}"] if folder else []) + [path] if m in self.places), None)

    def _address(self, module: str, name: str, here: Module) -> str:
        entry = f"#{quote(self.places[module][name])}"
        return entry if module == here.name else address(module) + entry


def links(modules: list[Module]) -> Links:
    return Links({m.name: {name: e.name for e in m.entries for name in e.names} for m in modules})


def address(module: str) -> str:
    """The page of a module, from the page of another."""
    return f"{quote(module)}.html"
