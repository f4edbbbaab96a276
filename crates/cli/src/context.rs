//! `campanile context …`: services and how to talk to them, by name.

use crate::args::{ContextAddOptions, ContextCommand, EventForm};
use crate::failure::Failure;
use crate::json;
use campanile::settings::{Context, Contexts, contexts_file};
use campanile::{SettingsError, TlsSettings, Transport};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{self, Path};

/// Runs one of the sub-commands.
pub(crate) fn run(command: &ContextCommand) -> Result<(), Failure> {
    let file = contexts_file().map_err(failure)?;
    let mut contexts = Contexts::load(&file).map_err(failure)?;
    match command {
        ContextCommand::Ls { json } => {
            let text = if *json { as_json(&contexts) } else { lines(&contexts) };
            return Ok(io::stdout().write_all(text.as_bytes())?);
        }
        ContextCommand::Add(options) => add(&mut contexts, options, &file)?,
        ContextCommand::Use { name, .. } => contexts.select(name.as_deref(), &file).map_err(failure)?,
        ContextCommand::Rm { name } => contexts.remove(name, &file).map_err(failure)?,
    }
    contexts.save(&file).map_err(failure)
}

fn add(contexts: &mut Contexts, options: &ContextAddOptions, file: &Path) -> Result<(), Failure> {
    let ContextAddOptions { name, server, transport, event_form, naming, naming_domain, event_domain, .. } = options;
    let mut context = contexts.contexts.get(name).cloned().unwrap_or_default();
    let replace = |place: &mut Option<String>, value: &Option<String>| {
        if value.is_some() {
            place.clone_from(value);
        }
    };
    replace(&mut context.server, server);
    replace(&mut context.naming, naming);
    replace(&mut context.naming_domain, naming_domain);
    replace(&mut context.event_domain, event_domain);
    let mut tls = context.tls.clone().unwrap_or_default();
    let files = [
        (&mut tls.ca, &options.tls_ca),
        (&mut tls.certificate, &options.tls_certificate),
        (&mut tls.key, &options.tls_key),
    ];
    for (place, said) in files {
        if let Some(said) = said {
            // Commands that use the context run elsewhere.
            *place = Some(path::absolute(said)?);
        }
    }
    context.tls = Some(tls).filter(|tls| *tls != TlsSettings::default());
    if let Some(transport) = transport {
        context.transport = Some((*transport).into());
    }
    if let Some(form) = event_form {
        context.event_form = Some(match form {
            EventForm::Body => campanile::EventForm::Body,
            EventForm::Alma => campanile::EventForm::Alma,
        });
    }
    context.shared_thread = options.shared_thread.or(context.shared_thread);
    if context == Context::default() {
        return Err(Failure::Usage("a context says something: --server, or --transport".to_owned()));
    }
    contexts.set(name, context).map_err(failure)?;
    if options.is_used {
        contexts.select(Some(name), file).map_err(failure)?;
    }
    Ok(())
}

fn failure(error: SettingsError) -> Failure {
    match error {
        SettingsError::Value { .. } => Failure::Usage(error.to_string()),
        error => Failure::message(error),
    }
}

/// Settings of a context, by name.
fn said(context: &Context) -> Vec<(&'static str, String)> {
    let transport = context.transport.map(|transport| match transport {
        Transport::Dds => "dds".to_owned(),
        _ => "notification".to_owned(),
    });
    let form = context.event_form.map(|form| match form {
        campanile::EventForm::Alma => "alma".to_owned(),
        _ => "body".to_owned(),
    });
    let TlsSettings { ca, certificate, key, .. } = context.tls.clone().unwrap_or_default();
    let [ca, certificate, key] = [ca, certificate, key].map(|file| Some(file?.display().to_string()));
    [
        ("server", context.server.clone()),
        ("transport", transport),
        ("event_form", form),
        ("naming", context.naming.clone()),
        ("naming_domain", context.naming_domain.clone()),
        ("event_domain", context.event_domain.clone()),
        ("shared_thread", context.shared_thread.map(|is_shared| is_shared.to_string())),
        ("tls.ca", ca),
        ("tls.certificate", certificate),
        ("tls.key", key),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key, value?)))
    .collect()
}

fn lines(contexts: &Contexts) -> String {
    let width = contexts.contexts.keys().map(String::len).max().unwrap_or(0);
    let mut text = String::new();
    for (name, context) in &contexts.contexts {
        let star = if contexts.selected.as_ref() == Some(name) { '*' } else { ' ' };
        let said: Vec<String> = said(context).iter().map(|(key, value)| format!("{key} {value}")).collect();
        let _ = writeln!(text, "{star} {name:width$}  {}", said.join(", "));
    }
    text
}

fn as_json(contexts: &Contexts) -> String {
    let mut text = String::new();
    let write = |out: &mut String| {
        json::object(out, contexts.contexts.iter().map(|(name, context)| (name.as_str(), context)), |out, context| {
            let said = said(context);
            json::object(out, said.iter().map(|(key, value)| (*key, value)), |out, value| json::text(out, value));
        });
    };
    json::Object::new(&mut text).member("selected", &contexts.selected).written("contexts", write).end();
    text + "\n"
}
