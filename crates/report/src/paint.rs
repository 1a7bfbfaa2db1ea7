//! Colours, where they are wanted.

/// Whether a text is coloured. Colour only ever repeats what the words say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint(bool);

impl Paint {
    /// Plain text.
    pub const OFF: Paint = Paint(false);
    /// Colours, as escape sequences that every terminal knows.
    pub const ON: Paint = Paint(true);

    /// Colours if `on`.
    pub const fn new(on: bool) -> Self {
        Paint(on)
    }

    /// A heading, or the figure that matters.
    pub fn strong(self, text: &str) -> String {
        self.with("1", text)
    }

    /// What explains something else.
    pub fn faint(self, text: &str) -> String {
        self.with("2", text)
    }

    /// Good news.
    pub fn good(self, text: &str) -> String {
        self.with("32", text)
    }

    /// A warning.
    pub fn doubt(self, text: &str) -> String {
        self.with("33", text)
    }

    /// An error, or a no.
    pub fn bad(self, text: &str) -> String {
        self.with("1;31", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
