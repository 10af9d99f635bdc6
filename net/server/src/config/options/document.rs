//! Renders the table of all options as `docs/configuration.md`, for operators.

use super::{Effect, clients, guardrails, node, repair, security, storage};

/// Returns the text of `docs/configuration.md`: the table of all options in Markdown.
pub fn document() -> String {
    let mut out = String::from(
        "# Options of cassandra.yaml\n\
         \n\
         Every option of Cassandra 5.0, and seven of this node's own. The last column says what an option does here:\n\
         \n\
         * **read**: what it does in Cassandra, but for what is said.\n\
         * **guardrail**: read if `guardrails_apply_to_anonymous` is true, and then it holds everybody: ordinary users are not told\n\
         \x20 from superusers yet.\n\
         * **refused**: the node does not start (exit code 1) with another value than the default, or than those named.\n\
         * **no effect**: taken, shown in `system_views.settings`, and warned about at start if it is not the default.\n\
         \n\
         An unknown option stops the node, as in Cassandra, and so does a value of the wrong kind. Older names are taken: their\n\
         values are plain numbers in the unit that the name ends with. `group.option` stands for the option of a group, in the\n\
         file and with `-D`. Flags are `true`, `false`, `yes`, `no`, `on` or `off`, in any case, in quotes or not. Durations have\n\
         the units d, h, m, s, ms, us and ns, sizes B, KiB, MiB and GiB, with no space before them.\n\
         \n\
         The table is generated from the one that the node reads its configuration by:\n\
         `HELENUS_WRITE_DOCS=1 cargo test -p server --lib configuration_document -- --ignored`.\n",
    );
    for (title, keys) in [
        ("Node", node::KEYS),
        ("Clients", clients::KEYS),
        ("Security", security::KEYS),
        ("Storage", storage::KEYS),
        ("Hints, repair, streaming", repair::KEYS),
        ("Guardrails", guardrails::KEYS),
    ] {
        out += &format!("\n## {title}\n| option | older names | values | default | here |\n|---|---|---|---|---|\n");
        for key in keys {
            let here = match key.effect {
                Effect::Group => continue,
                Effect::Read { note: "" } => "read".to_owned(),
                Effect::Read { note } => format!("read: {note}"),
                Effect::Guardrail => "guardrail".into(),
                Effect::Refused { taken: [], reason } => format!("refused: {reason}"),
                Effect::Refused { taken, reason } => format!("refused but for `{}`: {reason}", taken.join("`, `")),
                Effect::Unused { reason } => format!("no effect: {reason}"),
            };
            let older: Vec<String> = key.older.iter().map(|(older, _)| format!("`{older}`")).collect();
            let default = match key.default_text() {
                None => String::new(),
                Some("") => "`''`".into(),
                Some(default) => format!("`{default}`"),
            };
            let own = if key.own { " (not in Cassandra)" } else { "" };
            out += &format!("| `{}`{own} | {} | {} | {default} | {here} |\n", key.name, older.join(", "), key.kind);
        }
    }
    out
}
