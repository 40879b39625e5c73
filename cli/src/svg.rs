//! A small writer of SVG: shapes, text and one style sheet. Lengths are in pixels.

use std::fmt::{Display, Write};

/// Which point of a text lies at its position.
#[derive(Clone, Copy)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        }
    }
}

/// A drawing that grows. Classes refer to the style sheet.
pub struct Svg {
    text: String,
}

impl Svg {
    /// An empty drawing on white.
    pub fn new(width: f64, height: f64, style: &str) -> Svg {
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
             <style>\n{style}</style>\n<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
        );
        Svg { text }
    }

    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.add(format_args!("<line class=\"{class}\" x1=\"{x1:.2}\" y1=\"{y1:.2}\" x2=\"{x2:.2}\" y2=\"{y2:.2}\"/>"));
    }

    pub fn polyline(&mut self, class: &str, colour: &str, points: &[(f64, f64)]) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.2},{y:.2}")).collect();
        self.add(format_args!("<polyline class=\"{class}\" stroke=\"{colour}\" points=\"{}\"/>", points.join(" ")));
    }

    pub fn circle(&mut self, colour: &str, (x, y): (f64, f64), radius: f64) {
        self.add(format_args!("<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"{radius}\" fill=\"{colour}\"/>"));
    }

    pub fn bar(&mut self, colour: &str, (x, y): (f64, f64), width: f64, height: f64) {
        self.add(format_args!(
            "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" rx=\"1.5\" fill=\"{colour}\"/>"
        ));
    }

    pub fn label(&mut self, class: &str, anchor: Anchor, (x, y): (f64, f64), content: &str) {
        let (anchor, content) = (anchor.name(), escaped(content));
        self.add(format_args!(
            "<text class=\"{class}\" text-anchor=\"{anchor}\" x=\"{x:.2}\" y=\"{y:.2}\">{content}</text>"
        ));
    }

    /// A text that reads upward, centred at its position.
    pub fn upward_label(&mut self, class: &str, (x, y): (f64, f64), content: &str) {
        let content = escaped(content);
        self.add(format_args!(
            "<text class=\"{class}\" text-anchor=\"middle\" transform=\"translate({x:.2} {y:.2}) rotate(-90)\">{content}</text>"
        ));
    }

    /// Ten to a power, with the power raised, ending at its position.
    pub fn power_of_ten(&mut self, class: &str, (x, y): (f64, f64), power: i32) {
        self.add(format_args!(
            "<text class=\"{class}\" text-anchor=\"end\" x=\"{x:.2}\" y=\"{y:.2}\">10<tspan dy=\"-5\" font-size=\"9\">{power}</tspan></text>"
        ));
    }

    /// The finished document.
    pub fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }

    fn add(&mut self, element: impl Display) {
        let _ = writeln!(self.text, "{element}");
    }
}

/// A text in which nothing is markup.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        let mut svg = Svg::new(10.0, 10.0, "");
        svg.label("a", Anchor::Start, (1.0, 2.0), "<b> & \"c\"");
        assert!(svg.finish().contains("&lt;b&gt; &amp; &quot;c&quot;</text>"));
    }
}
