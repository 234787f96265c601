"""Mutants of a module: its syntax tree with one small fault, such as `<` for `<=` or `min` for `max`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
NAMES = {
    "min": "max", "max": "min", "floor": "ceil", "ceil": "floor", "any": "all", "all": "any", "log": "log1p",
    "expm1": "exp", "log1p": "log", "inf": "nan",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault: where it is, the line as it stands, and what became of which part of it."""

    line: int
    text: str
    fault: str
    tree: ast.Module

    @property
    def key(self) -> tuple[str, str]:
        """What survives a change elsewhere in the file: the line's text and the fault."""
        return self.text, self.fault


def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its text. Docstrings, annotations and messages are left alone."""
    tree, lines = ast.parse(source), source.splitlines()
    places = list(_places(tree))
    for number in range(len(places)):
        for choice in range(_choices(places[number])):
            changed = deepcopy(tree)
            node = list(_places(changed))[number]
            before = ast.unparse(node)
            _change(node, choice)
            after = ast.unparse(node)
            line = getattr(node, "lineno", 0)
            yield Mutant(
                line, lines[line - 1].strip(), f"{before} → {after}", ast.fix_missing_locations(changed)
            )


def _places(tree: ast.AST) -> Iterator[ast.AST]:
    """The parts that can be changed, but for those in annotations, assertions of types, and texts of errors."""
    for field, value in ast.iter_fields(tree):
        if field in {"annotation", "returns", "decorator_list"} or isinstance(
            tree, ast.Raise | ast.JoinedStr
        ):
            continue
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST):
                if _choices(node):
                    yield node
                yield from _places(node)


def _choices(node: ast.AST) -> int:
    match node:
        case ast.Compare(ops=[one]):
            return int(type(one) in COMPARISONS)
        case ast.BinOp():
            return int(type(node.op) in OPERATORS and not _is_type(node))
        case ast.BoolOp() | ast.If() | ast.IfExp() | ast.While():
            return 1
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            return 1
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return int(name in NAMES)
        case ast.Constant(value=bool()):
            return 1
        case ast.Constant(value=int() | float()):
            return 1
        case ast.Return(value=value) if value is not None:
            return int(not isinstance(value, ast.Constant))
        case ast.Expr(value=ast.Call()):
            return 1
    return 0


def _is_type(node: ast.BinOp) -> bool:
    return isinstance(node.op, ast.BitOr)


def _change(node: ast.AST, choice: int) -> None:
    match node:
        case ast.Compare():
            node.ops = [COMPARISONS[type(node.ops[0])]()]
        case ast.BinOp():
            node.op = OPERATORS[type(node.op)]()
        case ast.BoolOp():
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case ast.If() | ast.IfExp() | ast.While():
            node.test = ast.UnaryOp(op=ast.Not(), operand=node.test)
        case ast.UnaryOp():
            node.op = ast.UAdd() if isinstance(node.op, ast.USub) else ast.Not()
            if isinstance(node.op, ast.Not):
                node.operand = ast.UnaryOp(op=ast.Not(), operand=node.operand)
        case ast.Call(func=ast.Name()):
            node.func = ast.Name(id=NAMES[node.func.id], ctx=ast.Load())
        case ast.Call(func=ast.Attribute()):
            node.func.attr = NAMES[node.func.attr]
        case ast.Constant(value=bool()):
            node.value = not node.value
        case ast.Constant():
            node.value = node.value + 1 if isinstance(node.value, int) else node.value * 1.01 + 0.001  # type: ignore[operator]
        case ast.Return():
            node.value = ast.Constant(value=None)
        case ast.Expr():
            node.value = ast.Constant(value=None)
