"""Tests of the laboratory's workspace: python3 -m unittest discover -s lab"""

import pathlib
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent


def read(name):
    return tomllib.loads((ROOT / name).read_text(encoding="utf-8"))


def packages(name):
    return {(package["name"], package["version"]) for package in read(name)["package"] if "source" in package}


class Workspace(unittest.TestCase):
    """Two workspaces share a target folder. With other versions or settings each would build everything for itself, and what is measured
    would not be built as what is installed."""

    def test_the_laboratory_has_the_other_workspace_s_versions(self):
        self.assertEqual(packages("lab/Cargo.lock") - packages("Cargo.lock"), set())

    def test_the_laboratory_has_the_other_workspace_s_settings(self):
        product, lab = read("Cargo.toml"), read("lab/Cargo.toml")
        self.assertEqual(lab["lints"], product["workspace"]["lints"])
        self.assertEqual(lab["profile"]["release"], product["profile"]["release"])
        packages, all_packages = (profiles["dev"].pop("package") for profiles in (lab["profile"], product["profile"]))
        self.assertEqual(lab["profile"]["dev"], product["profile"]["dev"])
        self.assertEqual({**all_packages, **packages}, all_packages)
        ours = product["workspace"]["package"]
        self.assertEqual({name: lab["package"][name] for name in ("version", "edition", "rust-version", "license")},
                         {name: ours[name] for name in ("version", "edition", "rust-version", "license")})

    def test_the_laboratory_is_not_built_with_the_product(self):
        product = read("Cargo.toml")["workspace"]
        self.assertNotIn("lab", product["members"])
        self.assertIn("lab", product["exclude"])


if __name__ == "__main__":
    unittest.main()
