//! The reference page.

use std::fmt::Write;

use crate::parameter::{Change, OptionEffect, Parameter, Place, Section};
use crate::table::PARAMETERS;

/// The reference page of all options, in Markdown.
pub fn reference() -> String {
    let mut page = String::from(
        "# Options\n\n\
         <!-- Made by `chorale options --markdown` from the table in crates/options. Do not edit. -->\n\n\
         An option can be given as a flag of `chorale server`, as an environment variable, or in the TOML file that \
         `--config` names. A flag goes before the environment, the environment before the file, the file before \
         the default. Everything that is wrong in any of them is reported at once, and the server does not start.\n\n\
         ```toml\n# chorale.toml\nport = 6379\nmaxmemory = \"2gb\"\nmaxmemory-policy = \"allkeys-lru\"\n\
         protected-mode = true\nbind = [\"127.0.0.1\", \"-::1\"]\n```\n\n\
         Sizes are bytes, or numbers with a unit: `kb`, `mb`, `gb` are powers of 1024; `k`, `m`, `g` of 1000. \
         `CONFIG GET` shows every option but `config` and \
         `cluster-secret`, and `CONFIG SET` changes those that say so; one `CONFIG SET` \
         with several options changes all of them or none.\n",
    );
    for section in Section::ALL {
        let _ = write!(page, "\n## {}\n", section.title());
        for row in PARAMETERS.iter().filter(|row| row.section == section) {
            page.push_str(&entry(row));
        }
    }
    page
}

fn entry(row: &Parameter) -> String {
    let mut text = format!("\n### `{}`\n\n{}\n", row.name, row.doc);
    if let OptionEffect::None(why) = row.effect {
        let _ = write!(
            text,
            "\n**No effect in Chorale.** {why} The value is kept because Redis's tools set it.\n"
        );
    }
    let default = match row.default_value().render_for_people() {
        empty if empty.is_empty() => "empty".into(),
        value => format!("`{value}`"),
    };
    let unit = row
        .unit
        .filter(|_| matches!(row.kind, crate::OptionKind::Integer { .. }));
    let unit = unit.map(|unit| format!(", in {unit}")).unwrap_or_default();
    let _ = write!(
        text,
        "\n- Type: {}{unit}. Allowed: {}.\n- Default: {default}\n",
        row.kind.noun(),
        row.kind.allowed()
    );
    let flag = format!("flag `--{} {}`", row.name, row.placeholder());
    let env = format!("environment `{}`", row.env());
    let _ = match row.place {
        Place::Everywhere => writeln!(text, "- At start: {flag}, {env}, or the file"),
        Place::CommandLine => writeln!(text, "- At start: {flag}, {env}"),
        Place::File => writeln!(text, "- At start: {env}, or the file"),
    };
    text.push_str(match row.change {
        Change::Live => "- While running: `CONFIG SET`\n",
        Change::Restart => "- While running: fixed\n",
        Change::Order => "- While running: for the whole cluster, answered when all nodes have followed\n",
    });
    if let Some(alias) = row.alias {
        let _ = writeln!(text, "- Also called: `{alias}`");
    }
    text
}
