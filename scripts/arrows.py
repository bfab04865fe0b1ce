#!/usr/bin/env python3
"""Which file of a crate uses which: arrows, and the circles that they make.

    scripts/arrows.py [--list] CRATE_DIRECTORY …

An arrow goes from a file to another one that a `use` or a path of it names (`crate::`, `super::`,
`self::`, or a child module). Tests are left out. A file's own parents and children count like any
other, but for `mod` declarations and re-exports (`pub use` of a child). A circle is a set of files
that all reach each other.
"""
import re, sys
from pathlib import Path

def modules(src):
    found = {}
    for file in sorted(src.rglob('*.rs')):
        parts = list(file.relative_to(src).with_suffix('').parts)
        if parts[-1] in ('mod', 'lib', 'main'): parts.pop()
        if any('tests' in part for part in parts) or parts[:1] == ['bin']: continue
        found[tuple(parts)] = file
    return found

def strip(text):
    text = re.sub(r'//[^\n]*', '', text)
    text = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text, flags=re.S)
    # What is compiled for tests only, to the end of its block.
    out, at = [], 0
    for m in re.finditer(r'#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?(?:mod|fn|impl|use|struct)\b', text):
        if m.start() < at: continue
        out.append(text[at:m.start()])
        depth, i = 0, m.end()
        while i < len(text):
            c = text[i]
            if c == '{': depth += 1
            if c == '}':
                depth -= 1
                if depth == 0: i += 1; break
            if c == ';' and depth == 0: i += 1; break
            i += 1
        at = i
    out.append(text[at:])
    return ''.join(out)

def expand(tree):
    """All paths of a use tree."""
    tree = tree.strip()
    if tree.count('{') != tree.count('}') or tree.rfind('}') < tree.find('{'): return []
    if '{' not in tree: return [re.sub(r'\s+as\s+\w+', '', tree)]
    head, rest = tree.split('{', 1)
    rest = rest[:rest.rindex('}')]
    parts, depth, cur = [], 0, ''
    for c in rest:
        if c == '{': depth += 1
        if c == '}': depth -= 1
        if c == ',' and depth == 0: parts.append(cur); cur = ''
        else: cur += c
    parts.append(cur)
    return [head.strip() + p for part in parts if part.strip() for p in expand(part)]

def arrows(src):
    mods = modules(src)
    result = set()
    for me, file in mods.items():
        text = strip(file.read_text(errors='ignore'))
        paths = []
        for m in re.finditer(r'(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);', text):
            for path in expand(m.group(2)):
                paths.append((path, bool(m.group(1))))
        rest = re.sub(r'(pub(?:\([^)]*\))?\s+)?use\s+[^;]+;', '', text)
        paths += [(p, False) for p in re.findall(r'\b((?:crate|super|self)(?:::\w+)+)', rest)]
        for path, public in paths:
            words = [w.strip() for w in path.split('::') if w.strip()]
            if not words: continue
            base = None
            if words[0] == 'crate': base, words = [], words[1:]
            elif words[0] == 'self': base, words = list(me), words[1:]
            elif words[0] == 'super':
                base = list(me)
                while words and words[0] == 'super':
                    base = base[:-1]; words = words[1:]
            elif me + (words[0],) in mods: base = list(me)
            if base is None: continue
            at = tuple(base)
            for w in words:
                if at + (w,) in mods: at = at + (w,)
                else: break
            if at == me or at not in mods: continue
            if public and at[:len(me)] == me: continue
            result.add((me, at))
    return mods, result

def circles(nodes, edges):
    out = {n: [] for n in nodes}
    for a, b in edges: out[a].append(b)
    index, low, stack, on, found, count = {}, {}, [], set(), [], [0]
    sys.setrecursionlimit(10000)
    def visit(v):
        index[v] = low[v] = count[0]; count[0] += 1; stack.append(v); on.add(v)
        for w in out[v]:
            if w not in index: visit(w); low[v] = min(low[v], low[w])
            elif w in on: low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            group = []
            while True:
                w = stack.pop(); on.discard(w); group.append(w)
                if w == v: break
            if len(group) > 1: found.append(sorted(group))
    for n in nodes:
        if n not in index: visit(n)
    return found

names = [a for a in sys.argv[1:] if a != '--list']
if not names: sys.exit(__doc__)
print(f'{"crate":<24}{"files":>6}{"arrows":>8}{"circles":>9}{"files in them":>15}{"largest":>9}')
for name in names:
    mods, edges = arrows(Path(name) / 'src')
    found = circles(mods, edges)
    sizes = [len(group) for group in found]
    print(f'{Path(name).name:<24}{len(mods):>6}{len(edges):>8}{len(found):>9}{sum(sizes):>15}{max(sizes, default=0):>9}')
    if '--list' in sys.argv:
        for group in found: print('   ', ', '.join('::'.join(m) or 'crate' for m in group))
