"""Tests of house.py: python3 -m unittest discover -s lab"""

import pathlib
import subprocess
import tempfile
import unittest

import callpath
import house

SOURCE = '''//! A guest is somebody who was told.
//! Nothing else.
use std::collections::HashMap;

/// Whose turn it is.
pub(crate) struct GuestBook {
    /// Letters kept.
    pub(crate) letters: HashMap<u32, String>,
    limit: usize,
}

struct Empty;

enum Kind {
    Doors = "doors_open",
    LetGo { after: u32 },
    Plain(u32),
}

impl GuestBook {
    fn put_off(&mut self) {
        let held = "campanile_doors_open, doors, guests and {";
        let _ = held;
    }
}

impl<T> Other<T> {
    fn whatever() {}
}

#[test]
#[cfg(unix)]
fn a_guest_is_told() {}

impl Clone for Kind {
    fn clone(&self) -> Self { todo!() }
}
'''


class Words(unittest.TestCase):
    def test_names_are_compared_word_by_word(self):
        self.assertEqual(house.private_in("GuestBook"), ["guest"])
        self.assertEqual(house.private_in("put_off_later"), ["put off"])
        self.assertEqual(house.private_in("LetGo"), ["let go"])
        self.assertEqual(house.private_in("indoor_returned_postfix"), [])

    def test_a_dead_letter_is_the_field_s_own_word(self):
        self.assertEqual(house.private_in("lane_dead_letters_kept"), ["kept"])
        self.assertEqual(house.private_in("DeadLetterDesk"), [])
        self.assertEqual(house.private_in("send_letters_dead"), ["letters"])

    def test_a_term_of_a_paper_or_a_standard_is_no_private_word_where_it_is_meant(self):
        self.assertEqual(house.private_in("fair_share", "crates/turns/src/lib.rs"), [])
        self.assertEqual(house.private_in("fair_share", "crates/service/src/lane.rs"), ["share"])
        self.assertEqual(house.private_in("post_with", "crates/console/tests/http/support.rs"), [])
        self.assertEqual(house.private_in("post_with", "crates/console/src/api.rs"), ["post"])

    def test_declared_names_are_found_and_used_ones_are_not(self):
        names = [name for _, name in house.declared_in(SOURCE)]
        self.assertEqual(
            names,
            ["GuestBook", "letters", "limit", "Empty", "Kind", "doors_open", "LetGo", "Plain", "put_off", "whatever", "clone"],
        )

    def test_strings_are_counted_without_comments_names_and_placeholders(self):
        source = '''// "a guest"
fn door<'a>(quote: char) -> &'a str {
    let told = b"whose";
    assert!(quote == '"', "{told:?} by a laggard \\
        whose {door} is \\"shut\\"", r#"door:NAME, "Doors" and a dead letter"#)
}
'''
        strings = list(house.strings_in(source))
        self.assertEqual([number for number, _ in strings], [3, 4, 5])
        found = [word.group() for _, text in strings for word in house.IN_STRINGS.finditer(text)]
        self.assertEqual(found, ["whose", "laggard", "whose", "Doors"])
        self.assertEqual(strings[1][1], r" by a laggard whose is \"shut\"")

    def test_comments_are_counted_without_code(self):
        self.assertEqual(len(house.comments_in(SOURCE)), 4)


class Structs(unittest.TestCase):
    def test_fields_and_inherent_implementations_are_counted(self):
        self.assertEqual(list(house.fields_in(SOURCE)), [("GuestBook", 2)])
        self.assertEqual(house.impls_in(SOURCE), {"GuestBook", "Other"})


class Tree(unittest.TestCase):
    def test_a_tree_is_measured_and_only_what_git_tracks(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "crates/a/src").mkdir(parents=True)
            (root / "lab/src").mkdir(parents=True)
            (root / "crates/a/src/roster.rs").write_text(SOURCE)
            (root / "lab/src/main.rs").write_text("fn main() {}\n")
            subprocess.run(["git", "init", "-q"], cwd=root, check=True)
            subprocess.run(["git", "add", "."], cwd=root, check=True)
            (root / "crates/a/src/untracked.rs").write_text(SOURCE)
            figures, words, places = house.measure(root)
            self.assertEqual(figures["rust_lines"], SOURCE.count("\n") + 1)
            self.assertEqual(figures["lab_lines"], 1)
            self.assertEqual(figures["pronouns_per_1000"], 1000.0)
            self.assertEqual(figures["private_words"], 6)
            self.assertEqual((figures["words_in_strings"], len(places["in strings"])), (2, 2))
            self.assertEqual(dict(words), {"guest": 1, "letters": 1, "let go": 1, "put off": 1, "doors": 1, "roster": 1})
            self.assertEqual(places["roster"], ["crates/a/src/roster.rs: module"])
            self.assertEqual((figures["fields_max"], figures["fields_of"]), (2, "a::GuestBook"))
            self.assertEqual(house.property_files("GuestBook", root), 1)

    def test_a_link_to_a_file_or_a_heading_that_does_not_exist_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            one, other = pathlib.Path(folder, "one.md"), pathlib.Path(folder, "other.md")
            one.write_text(
                "# `Words` of [us](x)\n[a](other.md#far-off) [b](#words-of-us) [c](none.md) [d](other.md#none) [e](https://x.org/y)\n"
                "```\n# no-heading [f](none.md)\n```\n`[g](none.md)` [h](#no-heading) [i](other.md#by-hand) [j](other.md#far-off-1)\n"
            )
            other.write_text('# Far off\n## Far off\n<a id="by-hand"></a>\n')
            problems = [problem.removeprefix(f"{one}: ") for problem in house.broken_links([one, other])]
        self.assertEqual(
            problems,
            ["x: there is no such file", "none.md: there is no such file", "other.md#none: there is no such heading", "#no-heading: there is no such heading"],
        )

    def test_a_document_that_is_too_long_is_named_with_its_count(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "docs").mkdir()
            (root / "ARCHITECTURE.md").write_text("| a | word |\n" * 1_250)
            (root / "docs/operating.md").write_text("word " * 3_001)
            (root / "CHANGELOG.md").write_text("# Changelog\n\n## New\n" + "- one\n\n" * 61 + "\n## Old\n" + "- one\n" * 60)
            self.assertEqual(house.long_documents(root), [
                "docs/operating.md: words: 3001, at most 3000 are allowed",
                "CHANGELOG.md: lines of New: 61, at most 60 are allowed",
            ])

    def test_the_path_has_what_is_called_for_every_second_event(self):
        def profile(calls):
            return callpath.calls_in(
                f"fl=/r/crates/a/src/x.rs\nfn=a::outer\n3 9\ncfn=a::inner<u8>\ncalls={calls} 7\n3 4\n"
                f"cfi=/r/crates/b/src/y.rs\ncfn=b::other\ncalls={calls // 4} 9\n4 4\ncfi=/lib/z.c\ncfn=malloc\ncalls={calls} 9\n"
                "fi=/r/crates/b/src/w.rs\ncfn=b::once\ncalls=1 9\nfn=a::rest\ncfn=a::inner<u16>'2\ncalls=10 8\n"
            )

        path = callpath.path_of(profile(100), profile(500), 400, "/r")
        self.assertEqual(path, {("crates/a/src/x.rs", "a::inner"): 1.0})

    def test_a_figure_above_its_bound_is_named(self):
        self.assertEqual(house.exceeded({"a": 3, "b": 1}, {"a": 2, "b": 1}), ["a is 3, at most 2 is allowed"])


if __name__ == "__main__":
    unittest.main()
