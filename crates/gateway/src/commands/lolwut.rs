//! `LOLWUT`: a picture.

use crate::context::Context;
use crate::gateway::Gateway;
use command::{ReplyError, number};
use ids::Prng;
use resp::{Args, ReplyWriter};

/// Whichever version of the picture is asked for, there is one.
pub(super) fn lolwut(cx: &mut Context, args: Args<'_>, w: &mut ReplyWriter<'_>) -> Result<(), ReplyError> {
    if let (Some(word), Some(version)) = (args.get(1), args.get(2))
        && word.eq_ignore_ascii_case(b"version")
    {
        number::parse_i64(version).ok_or(ReplyError::NotAnInteger)?;
    }
    let text = format!(
        "{}\nMany voices, one song. Chorale ver. {}, Redis ver. {}\n",
        score(&mut cx.prng),
        env!("CARGO_PKG_VERSION"),
        Gateway::REDIS_VERSION
    );
    w.verbatim("txt", text.as_bytes());
    Ok(())
}

/// Two staves with a voice each. Every voice goes up and down by a step or two, and they end together.
fn score(prng: &mut Prng) -> String {
    const LINES: usize = 9;
    const NOTES: usize = 16;
    const WIDTH: usize = 4 * NOTES;
    let mut text = String::new();
    for _ in 0..2 {
        let mut pitch = LINES / 2;
        let mut staff = vec![[' '; WIDTH]; LINES];
        for line in staff.iter_mut().step_by(2) {
            *line = ['-'; WIDTH];
        }
        for note in 0..NOTES {
            let up = prng.below(3) as usize;
            let down = prng.below(3) as usize;
            let is_last = note == NOTES - 1;
            pitch = if is_last {
                LINES / 2
            } else {
                (pitch + up).saturating_sub(down).min(LINES - 1)
            };
            staff[pitch][4 * note + 1] = if is_last { 'O' } else { '@' };
        }
        for line in staff {
            text.push('|');
            text.extend(line);
            text.push_str("|\n");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_voices_sing_every_note() {
        for seed in 0..50 {
            let text = score(&mut Prng::new(seed));
            assert_eq!(text.matches('@').count(), 30);
            assert_eq!(text.matches('O').count(), 2);
        }
    }
}
