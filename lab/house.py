#!/usr/bin/env python3
"""Measure the size and the language of this tree.

    lab/house.py              # a table
    lab/house.py --json       # the same as one JSON object
    lab/house.py --check      # fail where a figure is above its bound (BOUNDS), a document too long or its link broken: `make check` runs this
    lab/house.py --words      # every private word with its places
    lab/house.py --property DeliveryAttempts   # count the files that name this property
    lab/house.py --path target/debug/campanile # count the functions that one event runs through (callpath.py says of which build)

Only files that git tracks are counted. `rust_lines` are all lines of Rust, `lab_lines` those below lab/ and of the load
generator, crates/load.
`pronouns_per_1000` is counted in the comment lines of crates/. `private_words` counts declared names (modules, types, functions,
fields, variants, metrics) with a word of the list WORDS, each once for every declaration.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys

import callpath

ROOT = pathlib.Path(__file__).resolve().parent.parent

PRONOUNS = re.compile(r"\b(who|whose|whoever|nobody|somebody|told|comes to)\b", re.IGNORECASE)

# Words of this tree alone, and what the field calls the same. Inflected forms are listed, since names are compared word by word.
WORDS = {
    "door": "protocol", "doors": "protocols",
    "guest": "local proxy", "guests": "local proxies",
    "post": "mailbox", "letter": "message", "letters": "messages", "mail": "message",
    "bell": "waker", "bells": "wakers",
    "office": "administration's mailbox",
    "roster": "registry", "rosters": "registries",
    "share": "budget", "shares": "budgets", "portion": "chunk", "portions": "chunks",
    "turn": "quota", "turns": "quotas", "instalment": "chunk", "instalments": "chunks", "piece": "chunk", "pieces": "chunks",
    "hungry": "has backlog",
    "settle": "flush", "settled": "complete", "settles": "completes",
    "recall": "header cache", "recalls": "header cache",
    "tally": "counters", "tallies": "counters",
    "remark": "warning", "remarks": "warnings", "objection": "validation error", "objections": "validation errors",
    "medium": "block device", "overlay": "write cache",
    "owe": "pending acknowledgement", "owes": "pending acknowledgement", "owed": "pending acknowledgement",
    "pay": "complete", "pays": "completes", "paid": "completed",
    "told": "logged once",
    "laggard": "slow consumer", "laggards": "slow consumers",
    "held": "blocked",
    "past": "history",
    "standing": "status", "standings": "status",
    "welcome": "register", "farewell": "deregister", "farewells": "deregistrations",
    "want": "subscription", "wants": "subscriptions", "wanted": "subscribed",
    "draft": "pending event", "drafts": "pending events",
    "undecided": "awaiting filter", "ruling": "verdict", "rulings": "verdicts",
    "question": "remote filter call", "questions": "remote filter calls",
    "pulse": "saturation",
    "commons": "memory pool",
    "seat": "slot", "seats": "slots",
    "bereaved": "orphaned backlog", "leftover": "orphaned backlog", "leftovers": "orphaned backlog",
    "kept": "stored", "keeping": "store",
    "asked": "request", "asks": "requests",
}

# Word pairs of the list: the field says the one word otherwise as well.
PAIRS = {("put", "off"): "deferred", ("let", "go"): "disconnected", ("shared", "room"): "memory pool"}

# The words that are private wherever they stand in a text; `door:NAME` is what users write in rules of access.
IN_STRINGS = re.compile(
    PRONOUNS.pattern + r"|\b(doors?(?!:)|guests?|bells?|rosters?|instalments?|hungry|tally|tallies|remarks?|owe[sd]?|laggards?|farewells?|undecided|bereaved|leftovers?"
    r"|kept aside|put off|let go)\b",
    re.IGNORECASE,
)

# Where a word of the list is the term of a standard, of a paper or of another project: words, paths, and the reason.
STANDARD = [
    ({"share", "shares"}, re.compile(r"crates/(engine|turns|planning|tempo|topology)/|crates/service/src/(protocols/tempo/|config/lanes\.rs)|crates/client/src/notify/"),
     "the weighted fair share of a topic (Tempo, section IV; the IDL's Share)"),
    ({"post"}, re.compile(r"crates/console/tests/http/"), "the method of HTTP"),
    ({"wants"}, re.compile(r"crates/tls/src/session\.rs"), "rustls' wants_write"),
    ({"tally"}, re.compile(r"crates/ffi/src/publisher\.rs"), "a function that programs in C are linked with"),
]

# What `--check` allows: lowered as the tree gets plainer; `rust_lines` is raised only with a reason in the commit.
BOUNDS = {
    "rust_lines": 368_700, "lab_lines": 29_800, "pronouns_per_1000": 15, "words_in_strings": 77, "private_words": 0,
    # One of the files is that of a protocol that exists in tests only.
    "impl_files_max": 17, "fields_max": 35,
}

# Of documents (CONTRIBUTING.md).
WORDS_MAX = {"ARCHITECTURE.md": 2_500, "docs/operating.md": 3_000}
VERSION_LINES_MAX = 60

DECLARED = re.compile(
    r"^\s*(?:pub(?:\([^)]*\))?\s+)?(?:default\s+|const\s+|async\s+|unsafe\s+|extern\s+\"C\"\s+)*"
    r"(?:mod|struct|enum|union|trait|type|fn|const|static)\s+(?:r#)?([A-Za-z_]\w*)"
)
FIELD = re.compile(r"^\s+(?:pub(?:\([^)]*\))?\s+)?(?:r#)?([a-z_]\w*):\s+[^:]")
VARIANT = re.compile(r"^\s+([A-Z]\w*)\s*(?:[{(,]|$)")
METRIC = re.compile(r"^\s+[A-Z]\w*\s*=\s*\"([a-z0-9_]+)\",")  # a row of the table of counters
STRUCT = re.compile(r"^\s*(?:pub(?:\([^)]*\))?\s+)?struct\s+(\w+)[^;({]*\{\s*$")
IMPL = re.compile(r"^impl(?:<[^{]*?>)?\s+(?:crate::|super::|self::)*(?:\w+::)*(\w+)(?:<.*>)?\s*(?:where.*)?\{?\s*$")
# Comments and characters are matched as well, so that a quote in them opens no literal.
LITERAL = re.compile(
    r"//[^\n]*|/\*.*?\*/|\b[bc]?r(?P<hashes>#*)\"(?P<raw>.*?)\"(?P=hashes)|\"(?P<plain>(?:[^\"\\]|\\.)*)\"|'(?:\\[^\n]+?|[^\\'\n])'", re.DOTALL
)
PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def tracked(pattern, root=ROOT):
    """Paths below `root` that git tracks and that match `pattern`."""
    listed = subprocess.run(["git", "ls-files", "-z", pattern], cwd=root, check=True, capture_output=True, text=True).stdout
    return [root / name for name in listed.split("\0") if name and (root / name).is_file()]


def parts(name):
    """The words of an identifier in snake_case or CamelCase, in lower case."""
    return [word.lower() for word in PARTS.findall(name)]


def private_in(name, path=""):
    """The private words in one identifier that is declared in the file `path`."""
    words = parts(name)
    standard = {word for some, paths, _ in STANDARD if paths.match(path) for word in some}
    # What is undeliverable is a dead letter in every messaging system.
    found = [word for word, before in zip(words, ["", *words]) if word in WORDS and word not in standard and not (before == "dead" and word in ("letter", "letters"))]
    found.extend(" ".join(pair) for pair in zip(words, words[1:]) if pair in PAIRS)
    return found


def declared_in(text):
    """(line number, name) of everything that `text`, a file of Rust, declares, tests left out: their names are sentences."""
    test = False
    inside = []  # what each open brace belongs to: "struct", "enum" or ""
    for number, line in enumerate(text.splitlines(), 1):
        code = line.split("//", 1)[0]
        if line.strip().startswith("#["):
            test = test or line.strip() == "#[test]"
        elif found := DECLARED.match(code):
            if not test:
                yield number, found.group(1)
            test = False
        elif inside and inside[-1] == "struct" and (found := FIELD.match(code)):
            yield number, found.group(1)
        elif inside and inside[-1] == "enum" and (found := VARIANT.match(code)):
            yield number, found.group(1)
        for found in METRIC.finditer(line):
            yield number, found.group(1)
        opener = re.match(r"^\s*(?:pub(?:\([^)]*\))?\s+)?(struct|enum)\b", code)
        for brace in re.findall(r"[{}]", re.sub(r"'.'|\"(?:[^\"\\]|\\.)*\"", "", code)):
            if brace == "{":
                inside.append(opener.group(1) if opener else "")
                opener = None
            elif inside:
                inside.pop()


def comments_in(text):
    """The comment lines of a file of Rust, without their marks."""
    return [found.group(1) for line in text.splitlines() if (found := re.match(r"^\s*//[/!]?\s?(.*)$", line))]


def strings_in(text):
    """(line number, text) of each string literal in a file of Rust: line breaks joined, and without its {placeholders}."""
    for found in LITERAL.finditer(text):
        literal = found["raw"] or found["plain"]
        if literal:
            yield text.count("\n", 0, found.start()) + 1, re.sub(r"\s+", " ", re.sub(r"\\\n|\{\w*(:[^{}]*)?\}", " ", literal))


def fields_in(text):
    """(name, number of named fields) of each struct in a file of Rust."""
    name, count, depth = None, 0, 0
    for line in text.splitlines():
        code = line.split("//", 1)[0]
        if name is None:
            if found := STRUCT.match(code):
                name, count, depth = found.group(1), 0, 1
            continue
        if depth == 1 and FIELD.match(code):
            count += 1
        depth += code.count("{") - code.count("}")
        if depth <= 0:
            yield name, count
            name = None


def impls_in(text):
    """The types that a file of Rust has inherent `impl` blocks of."""
    return {found.group(1) for line in text.splitlines() if " for " not in line and (found := IMPL.match(line))}


def crate_of(path, root=ROOT):
    """The crate that a file belongs to: crates/NAME, or the first folder."""
    relative = path.relative_to(root).parts
    return "/".join(relative[:2]) if relative[0] == "crates" else relative[0]


def measure(root=ROOT):
    """All figures that need no other program, and the places of private words."""
    lines = lab = remarks = pronouns = in_strings = 0
    words, places = collections.Counter(), collections.defaultdict(list)
    impls, fields = collections.defaultdict(set), []
    for path in tracked("*.rs", root):
        text = path.read_text(encoding="utf-8")
        length = text.count("\n")
        lines += length
        crate = crate_of(path, root)
        if crate in ("lab", "crates/load"):
            lab += length
        if not crate.startswith("crates/"):
            continue
        comments = comments_in(text)
        remarks += len(comments)
        pronouns += sum(len(PRONOUNS.findall(line)) for line in comments)
        for number, literal in strings_in(text):
            for found in IN_STRINGS.finditer(literal):
                in_strings += 1
                places["in strings"].append(f"{path.relative_to(root)}:{number}: {found.group()}: {literal.strip()[:100]}")
        for number, name in declared_in(text):
            for word in private_in(name, str(path.relative_to(root))):
                words[word] += 1
                places[word].append(f"{path.relative_to(root)}:{number}: {name}")
        for stem in private_in(path.stem, str(path.relative_to(root))):
            words[stem] += 1
            places[stem].append(f"{path.relative_to(root)}: module")
        for name in impls_in(text):
            impls[crate, name].add(path)
        fields.extend((count, f"{crate.removeprefix('crates/')}::{name}") for name, count in fields_in(text))
    most_impls = max(((len(files), f"{crate.removeprefix('crates/')}::{name}") for (crate, name), files in impls.items()), default=(0, ""))
    most_fields = max(fields, default=(0, ""))
    figures = {
        "rust_lines": lines,
        "lab_lines": lab,
        "pronouns_per_1000": round(1000 * pronouns / max(remarks, 1), 1),
        "words_in_strings": in_strings,
        "private_words": sum(words.values()),
        "impl_files_max": most_impls[0],
        "impl_files_of": most_impls[1],
        "fields_max": most_fields[0],
        "fields_of": most_fields[1],
    }
    return figures, words, places


def property_files(name, root=ROOT):
    """The number of tracked files that name a property, in CamelCase or snake_case."""
    snake = "_".join(parts(name))
    found = subprocess.run(["git", "grep", "-lE", rf"\b({name}|{snake})\b"], cwd=root, capture_output=True, text=True).stdout
    return len(found.split())


def anchors(text):
    """The anchors of a document: its headings, as GitHub names them, and those set by hand."""
    found, in_code = collections.Counter(), False
    names = set(re.findall(r'<a (?:id|name)="([^"]+)"', text))
    for line in text.splitlines():
        in_code ^= line.startswith("```")
        heading = re.match(r"#+ (.*)", line)
        if in_code or not heading:
            continue
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
        name = re.sub(r"[^\w\- ]", "", re.sub("[`*]", "", shown).strip().lower()).replace(" ", "-")
        names.add(f"{name}-{found[name]}" if found[name] else name)
        found[name] += 1
    return names


def broken_links(documents):
    """A sentence for each link of a document to a file or an anchor that does not exist. Links to other sites are not followed."""
    known = {path.resolve(): anchors(path.read_text()) for path in documents}
    problems = []
    for path in documents:
        text = re.sub(r"`[^`\n]*`", "", re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL))
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            file, _, anchor = link.partition("#")
            target = (path.parent / file if file else path).resolve()
            if re.match("[a-z]+:", link):
                continue
            if not target.exists():
                problems.append(f"{path}: {link}: there is no such file")
            elif anchor and target.suffix == ".md" and anchor not in known.get(target, ()):
                problems.append(f"{path}: {link}: there is no such heading")
    return problems


def long_documents(root=ROOT):
    """A sentence for each document that is longer than its bound, and for each version that has too many lines in CHANGELOG.md."""
    counts = {f"{name}: words": (len(re.findall(r"\S*\w\S*", (root / name).read_text())), most) for name, most in WORDS_MAX.items()}
    for section in (root / "CHANGELOG.md").read_text().split("\n## ")[1:]:
        title, *lines = section.splitlines()
        counts[f"CHANGELOG.md: lines of {title}"] = (sum(bool(line.strip()) for line in lines), VERSION_LINES_MAX)
    return [f"{what}: {count}, at most {most} are allowed" for what, (count, most) in counts.items() if count > most]


def exceeded(figures, bounds):
    """A sentence for each figure above its bound."""
    return [f"{name} is {figures[name]}, at most {bound} is allowed" for name, bound in bounds.items() if figures[name] > bound]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--check", action="store_true", help="exit 1 where a figure is above its bound")
    parser.add_argument("--words", action="store_true", help="list the private words with their places")
    parser.add_argument("--path", metavar="PROGRAM", help="count the functions and files that one event runs through; needs valgrind")
    parser.add_argument("--property", metavar="NAME", help="count the files that name this property")
    options = parser.parse_args()
    figures, words, places = measure()
    path = {}
    if options.path:
        more, path = callpath.measure(options.path, ROOT)
        figures.update(more)
    if options.property:
        figures["property_files"] = property_files(options.property)
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        for name, value in figures.items():
            print(f"{name:18} {value}")
        for (file, function), calls in sorted(path.items()):
            print(f"  {calls:6.1f} {file} {function}")
    if options.words:
        print(f"\nin strings ({figures['words_in_strings']})", *places["in strings"], sep="\n  ")
        for word, count in words.most_common():
            print(f"\n{word} ({count}; the field's: {WORDS.get(word) or PAIRS.get(tuple(word.split()))})")
            print("\n".join(f"  {place}" for place in places[word]))
    if options.check and (problems := exceeded(figures, BOUNDS) + broken_links(tracked("*.md")) + long_documents()):
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
