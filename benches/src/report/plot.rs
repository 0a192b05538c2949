//! One drawing: SVG, and what a pointer over it reads.

use super::axis::Axis;
use super::figures::Figures;
use serde_json::{Value, json};

/// All drawings are as wide; a browser scales them.
pub(super) const WIDTH: f64 = 960.0;
/// Left of this stand the values of ticks.
pub(super) const LEFT: f64 = 70.0;
/// Right of this is room for half of a tick's words.
pub(super) const RIGHT: f64 = WIDTH - 32.0;

/// A drawing that grows.
#[derive(Debug)]
pub(super) struct Plot {
    id: String,
    label: String,
    height: f64,
    body: String,
    /// What each line of a read-out is about, and the side that hides it with itself.
    names: Vec<(String, Option<usize>)>,
    columns: Vec<Value>,
}

impl Plot {
    /// An empty one. The label says in a sentence what is to be seen.
    pub(super) fn new(id: String, label: String, height: f64) -> Self {
        Self {
            id,
            label,
            height,
            body: String::new(),
            names: Vec::new(),
            columns: Vec::new(),
        }
    }

    /// Lines across, at the values of an axis that goes up, and the name of the axis.
    pub(super) fn rows(&mut self, axis: &Axis, name: &str, tell: impl Fn(f64) -> String) {
        for tick in axis.ticks() {
            let y = axis.at(tick);
            self.line("grid", (LEFT, y), (RIGHT, y));
            self.text("tick end", (LEFT - 8.0, y + 4.0), &tell(tick));
        }
        self.text("name", (LEFT, axis.at(f64::INFINITY) - 9.0), name);
    }

    /// A line up at a value of the axis that goes across, with words beneath.
    pub(super) fn column(&mut self, x: f64, (top, bottom): (f64, f64), words: &str) {
        self.line("grid", (x, top), (x, bottom));
        self.text("tick middle", (x, bottom + 17.0), words);
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.body += &format!(
            "<line class='{class}' x1='{:.1}' y1='{:.1}' x2='{:.1}' y2='{:.1}'/>",
            from.0, from.1, to.0, to.1
        );
    }

    /// A curve through all points; where there is none it is broken.
    pub(super) fn curve(
        &mut self,
        class: &str,
        points: impl IntoIterator<Item = Option<(f64, f64)>>,
    ) {
        let mut path = String::new();
        let mut is_broken = true;
        for point in points {
            let Some((x, y)) = point else {
                is_broken = true;
                continue;
            };
            let command = if is_broken { 'M' } else { 'L' };
            path += &format!("{command}{x:.1} {y:.1}");
            if is_broken {
                // So that a lone point is drawn, as a dot.
                path += "h0";
            }
            is_broken = false;
        }
        if !path.is_empty() {
            self.body += &format!("<path class='{class}' d='{path}'/>");
        }
    }

    pub(super) fn dot(&mut self, class: &str, (x, y): (f64, f64), radius: f64) {
        self.body += &format!("<circle class='{class}' cx='{x:.1}' cy='{y:.1}' r='{radius}'/>");
    }

    /// A part of the drawing from one place across to another.
    pub(super) fn shade(&mut self, class: &str, (from, to): (f64, f64), (top, bottom): (f64, f64)) {
        // A slot may be narrower than anybody sees.
        let width = (to - from).max(1.0);
        self.body += &format!(
            "<rect class='{class}' x='{from:.1}' y='{top:.1}' width='{width:.1}' height='{:.1}'/>",
            bottom - top
        );
    }

    pub(super) fn text(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        let text = escaped(text);
        self.body += &format!("<text class='{class}' x='{x:.1}' y='{y:.1}'>{text}</text>");
    }

    /// What follows until [`Self::end`] belongs to that side, and goes when the side is hidden.
    pub(super) fn begin_side(&mut self, side: usize, colour: &str) {
        self.body += &format!("<g class='of-side {colour}' data-of-side='{side}'>");
    }

    /// Ends what [`Self::begin_side`] began.
    pub(super) fn end(&mut self) {
        self.body += "</g>";
    }

    /// Names a line of the read-out.
    pub(super) fn reads(&mut self, name: &str, side: Option<usize>) {
        self.names.push((name.to_owned(), side));
    }

    /// What is read near there, in the order of the names; nothing leaves a line out.
    pub(super) fn read_out(&mut self, x: f64, what: String, values: Vec<Option<String>>) {
        self.columns
            .push(json!([(x * 10.0).round() / 10.0, what, values]));
    }

    /// The drawing as a part of a page.
    pub(super) fn finish(self, caption: &str) -> String {
        let read_out = json!({ "names": self.names, "columns": self.columns });
        let Self {
            id,
            label,
            height,
            body,
            ..
        } = self;
        format!(
            "<figure><div class='scroll'><svg class='plot' id='{id}' role='img' aria-label='{}' \
             viewBox='0 0 {WIDTH} {height}' data-read-out='{}'>{body}\
             <line class='cursor' x1='0' x2='0' y1='0' y2='{height}'/></svg></div>\
             <figcaption>{}</figcaption></figure>\n",
            escaped(&label),
            escaped(&read_out.to_string()),
            escaped(caption)
        )
    }
}

/// The class with the colour of a side: floors are drawn in quiet ones.
pub(super) fn colour(figures: &Figures<'_>, index: usize) -> &'static str {
    const FLOORS: [&str; 3] = ["floor-0", "floor-1", "floor-2"];
    const OTHERS: [&str; 5] = ["side-0", "side-1", "side-2", "side-3", "side-4"];
    let is_floor = figures.sides[index].side.is_floor;
    let before = figures.sides[..index].iter();
    let alike = before.filter(|side| side.side.is_floor == is_floor).count();
    if is_floor {
        FLOORS[alike % FLOORS.len()]
    } else {
        OTHERS[alike % OTHERS.len()]
    }
}

/// Text that a browser shows as it is, between tags and in attributes.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            letter if letter.is_control() && letter != '\n' => {
                escaped.push(char::REPLACEMENT_CHARACTER);
            }
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_told_ends_a_tag_or_an_attribute() {
        let hostile = "</svg><script>alert('1')</script>\"&\0";
        assert_eq!(
            escaped(hostile),
            "&lt;/svg&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot;&amp;\u{fffd}"
        );
        let mut plot = Plot::new("x".to_owned(), hostile.to_owned(), 10.0);
        plot.text("tick", (0.0, 0.0), hostile);
        plot.reads(hostile, Some(0));
        plot.read_out(1.0, hostile.to_owned(), vec![Some(hostile.to_owned())]);
        let drawn = plot.finish(hostile);
        assert!(!drawn.contains("<script"), "{drawn}");
        assert_eq!(drawn.matches("</svg>").count(), 1);
    }

    #[test]
    fn a_curve_is_broken_where_nothing_is() {
        let mut plot = Plot::new("x".to_owned(), String::new(), 10.0);
        plot.curve(
            "curve",
            [Some((0.0, 1.0)), None, Some((2.0, 3.0)), Some((4.0, 5.0))],
        );
        plot.curve("curve", [None, None]);
        let drawn = plot.finish("");
        assert!(
            drawn.contains("d='M0.0 1.0h0M2.0 3.0h0L4.0 5.0'"),
            "{drawn}"
        );
        assert_eq!(drawn.matches("<path").count(), 1);
    }
}
