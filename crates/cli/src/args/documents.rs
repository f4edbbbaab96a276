//! Every command that a document shows is one that there is: in blocks with its options, elsewhere by its name.

use super::{Cli, arrange};
use clap::{Command, CommandFactory, Parser};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Pages for users, below the repository's root: notes say how something once was.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    const NOT_READ: [&str; 6] = ["target", "notes", "node_modules", "experiments", "venv", "lab"];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !name.starts_with('.') && !NOT_READ.contains(&name.as_str()) {
            pages(&path, found);
        } else if name.ends_with(".md") && name != "CHANGELOG.md" {
            found.push(path);
        }
    }
}

/// Lines of a page's blocks, and the inline code of the rest.
fn code(page: &str) -> (Vec<String>, Vec<String>) {
    let (mut lines, mut inline, mut in_fence, mut in_paragraph) = (Vec::new(), Vec::new(), false, false);
    for line in page.replace("\\\n", " ").lines() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        } else if in_fence || (!in_paragraph && line.starts_with("    ")) {
            lines.push(line.trim().trim_start_matches("$ ").to_owned());
        } else if !line.starts_with("<!--") {
            // Comments are for those who run the blocks, and may name the beginnings of commands.
            in_paragraph = !line.trim().is_empty();
            inline.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    (lines, inline)
}

/// The commands of a line of a shell, as words.
fn commands(line: &str) -> Vec<Vec<String>> {
    let (mut commands, mut words, mut word): (Vec<Vec<String>>, Vec<String>, Option<String>) = Default::default();
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            quote @ ('\'' | '"') => {
                word.get_or_insert_default().extend(letters.by_ref().take_while(|next| *next != quote))
            }
            '\\' => word.get_or_insert_default().extend(letters.next()),
            '#' if word.is_none() => break,
            '|' | ';' | '&' | '<' | '>' | ' ' => {
                words.extend(word.take());
                if letter != ' ' {
                    commands.push(std::mem::take(&mut words));
                }
                // A file is no command; what is behind it is none either.
                if matches!(letter, '<' | '>') {
                    break;
                }
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    commands.push(words);
    commands
}

/// What a command is called with, if it is ours: what is set for it, and from where it is started, put aside.
fn arguments(words: &[String]) -> Option<Vec<OsString>> {
    let is_before = |word: &String| word == "sudo" || word == "exec" || (word.contains('=') && !word.starts_with('-'));
    let rest = &words[words.iter().take_while(|word| is_before(word)).count()..];
    let program = rest.first()?;
    let is_ours = program == "campanile" || program.ends_with("/campanile");
    (is_ours && rest.len() > 1).then(|| rest.iter().map(OsString::from).collect())
}

/// What is left out of a line, or stands for what the reader puts there.
fn is_whole(words: &[OsString]) -> bool {
    words.iter().all(|word| !word.to_string_lossy().contains(['…', '→', '[', '{', '}']) && word != "...")
}

/// The first word that is not a command where one has to be.
fn unknown_command(words: &str) -> Option<String> {
    let mut words = words.split_whitespace();
    if words.next() != Some("campanile") {
        return None;
    }
    let mut command: Command = Cli::command();
    for word in words {
        let is_name = word.starts_with(|letter: char| letter.is_ascii_lowercase()) && !word.contains(['|', '=', '.']);
        match command.find_subcommand(word) {
            Some(found) => command = found.clone(),
            None if command.has_subcommands() && is_name => return Some(word.to_owned()),
            None => return None,
        }
    }
    None
}

#[test]
fn every_command_that_a_document_shows_is_understood() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut found, mut read, mut wrong) = (Vec::new(), 0, Vec::new());
    pages(&root, &mut found);
    for path in &found {
        let (lines, inline) = code(&fs::read_to_string(path).unwrap());
        let page = path.strip_prefix(&root).unwrap().display();
        for words in lines
            .iter()
            .flat_map(|line| commands(line))
            .filter_map(|words| arguments(&words))
            .filter(|words| is_whole(words))
        {
            read += 1;
            if let Err(error) = Cli::try_parse_from(arrange(&Cli::command(), words.clone()))
                && error.exit_code() != 0
            {
                wrong.push(format!("{page}: {words:?}: {}", error.to_string().lines().next().unwrap_or_default()));
            }
        }
        let unknown = inline.iter().filter_map(|text| unknown_command(text).map(|word| (text, word)));
        wrong.extend(unknown.map(|(text, word)| format!("{page}: `{text}`: there is no command {word}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(read > 90, "only {read} commands were found");
}

#[test]
fn a_line_is_split_as_a_shell_does() {
    let line = "X=1 sudo ./campanile sub --where '$a | 3' \"b c\" | tee x # campanile none";
    let split = commands(line);
    assert_eq!(split.len(), 2);
    assert_eq!(arguments(&split[0]).unwrap()[1..], ["sub", "--where", "$a | 3", "b c"]);
    assert_eq!(arguments(&split[1]), None);
    assert_eq!(unknown_command("campanile channel destroy 3"), Some("destroy".to_owned()));
    assert_eq!(unknown_command("campanile channel rm 3"), None);
}
