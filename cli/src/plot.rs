//! The picture of a solve: residual history on the left, sizes of the levels on the right.

use crate::emit::{bytes, count, seconds, threads};
use crate::svg::{Anchor, Svg};
use terrace::Report;
use terrace::report::LevelReport;

const WIDTH: f64 = 1120.0;
const TOP: f64 = 104.0;
const BOTTOM: f64 = 410.0;

/// Colours that people with any colour vision can tell apart.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

const STYLE: &str = "\
text { font-family: system-ui, 'DejaVu Sans', Helvetica, Arial, sans-serif; font-size: 12px; fill: #333333; }
.title { font-size: 18px; font-weight: 600; fill: #111111; }
.subtitle { font-size: 12.5px; fill: #666666; }
.heading { font-size: 13px; font-weight: 600; fill: #111111; }
.tick { font-size: 11.5px; fill: #555555; }
.grid { stroke: #e6e6e6; stroke-width: 1; }
.axis { stroke: #777777; stroke-width: 1; }
.curve { fill: none; stroke-width: 2; stroke-linejoin: round; }
";

/// A rectangle to draw in.
#[derive(Clone, Copy)]
struct Panel {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// Draws the first solves of a report and its hierarchy.
pub fn draw(name: &str, report: &Report) -> String {
    // A deep hierarchy makes the picture longer rather than its lines unreadable.
    let bottom = BOTTOM.max(TOP + 22.0 + 14.0 * report.levels.len() as f64);
    let mut svg = Svg::new(WIDTH, bottom + 60.0, STYLE);
    svg.label("title", Anchor::Start, (24.0, 36.0), &shortened(name, 90));
    svg.label("subtitle", Anchor::Start, (24.0, 58.0), &subtitle(report));
    history(&mut svg, Panel { left: 84.0, right: 540.0, top: TOP, bottom }, report);
    levels(&mut svg, Panel { left: 610.0, right: 1096.0, top: TOP, bottom }, &report.levels);
    svg.finish()
}

fn subtitle(report: &Report) -> String {
    let mut parts = Vec::new();
    // Of several right-hand sides the one that was solved worst.
    if let Some(solve) = report.solves.iter().max_by(|a, b| a.true_residual.total_cmp(&b.true_residual)) {
        let converged = if report.solves.iter().all(|s| s.converged) { "converged" } else { "not converged" };
        let (iterations, residual) = (solve.iterations, solve.true_residual);
        parts.push(format!(
            "{}: {iterations} iterations, {converged}, true relative residual {residual:.2e}",
            report.solver
        ));
    }
    if !report.levels.is_empty() {
        parts.push(format!("operator complexity {:.2}", report.operator_complexity()));
    }
    parts.push(format!("set-up {}", seconds(report.setup.get("total"))));
    parts.push(format!("solve {}", seconds(report.solve.get("total"))));
    parts.push(threads(report.threads));
    parts.join("  \u{b7}  ")
}

/// Relative residuals over iterations, logarithmic.
fn history(svg: &mut Svg, panel: Panel, report: &Report) {
    let shown = &report.solves[..report.solves.len().min(COLOURS.len())];
    let heading = match (shown.len(), report.solves.len()) {
        (few, all) if few < all => format!("Residual history, first {few} of {all} right-hand sides"),
        _ => "Residual history".to_string(),
    };
    svg.label("heading", Anchor::Start, (panel.left, panel.top - 16.0), &heading);
    let positive = |r: &&f64| r.is_finite() && **r > 0.0;
    let residuals: Vec<f64> = shown.iter().flat_map(|s| s.history.iter()).filter(positive).copied().collect();
    let last = shown.iter().map(|s| s.history.len().saturating_sub(1)).max().unwrap_or(0);
    if residuals.is_empty() {
        svg.label("tick", Anchor::Start, (panel.left, panel.top + 8.0), "no residual was recorded");
        return;
    }
    let low = residuals.iter().copied().fold(f64::INFINITY, f64::min).log10().floor() as i32;
    let high = residuals.iter().copied().fold(0.0, f64::max).log10().ceil() as i32;
    let high = high.max(low + 1);
    let x = |i: usize| panel.left + (panel.right - panel.left) * i as f64 / last.max(1) as f64;
    let y = |r: f64| panel.bottom - (panel.bottom - panel.top) * (r.log10() - f64::from(low)) / f64::from(high - low);

    let decades = (high - low).unsigned_abs().div_ceil(11) as usize;
    for power in (low..=high).rev().step_by(decades) {
        let at = y(10.0_f64.powi(power));
        svg.line("grid", (panel.left, at), (panel.right, at));
        svg.power_of_ten("tick", (panel.left - 8.0, at + 4.0), power);
    }
    for i in (0..=last).step_by(nice_step(last)) {
        svg.line("axis", (x(i), panel.bottom), (x(i), panel.bottom + 5.0));
        svg.label("tick", Anchor::Middle, (x(i), panel.bottom + 19.0), &i.to_string());
    }
    svg.line("axis", (panel.left, panel.bottom), (panel.right, panel.bottom));
    svg.line("axis", (panel.left, panel.top), (panel.left, panel.bottom));
    svg.label("tick", Anchor::Middle, ((panel.left + panel.right) / 2.0, panel.bottom + 40.0), "iteration");
    svg.upward_label("tick", (panel.left - 52.0, (panel.top + panel.bottom) / 2.0), "relative residual");

    for (s, solve) in shown.iter().enumerate() {
        let drawn = solve.history.iter().enumerate().filter(|(_, r)| positive(r));
        let points: Vec<(f64, f64)> = drawn.map(|(i, &r)| (x(i), y(r))).collect();
        svg.polyline("curve", COLOURS[s], &points);
        if points.len() <= 60 {
            points.iter().for_each(|&point| svg.circle(COLOURS[s], point, 3.0));
        }
        if shown.len() > 1 {
            let at = panel.top + 6.0 + 16.0 * s as f64;
            svg.bar(COLOURS[s], (panel.right - 128.0, at - 5.0), 14.0, 4.0);
            svg.label("tick", Anchor::Start, (panel.right - 108.0, at), &format!("right-hand side {s}"));
        }
    }
}

/// Bars of rows, nonzeros and bytes for each level, linear, each quantity over its largest.
fn levels(svg: &mut Svg, panel: Panel, levels: &[LevelReport]) {
    svg.label("heading", Anchor::Start, (panel.left, panel.top - 16.0), "Levels");
    if levels.is_empty() {
        svg.label("tick", Anchor::Start, (panel.left, panel.top + 8.0), "no hierarchy was built");
        return;
    }
    type Quantity = (&'static str, fn(&LevelReport) -> usize, fn(usize) -> String);
    let quantities: [Quantity; 3] =
        [("rows", |l| l.rows, count), ("nonzeros", |l| l.nonzeros, count), ("bytes", |l| l.bytes, bytes)];
    let first = panel.left + 40.0;
    let column = (panel.right - first) / quantities.len() as f64;
    let longest = column - 68.0;
    let heading = panel.top + 10.0;
    let pitch = ((panel.bottom - heading - 12.0) / levels.len() as f64).min(36.0);
    let thickness = (pitch * 0.62).min(20.0);
    let centre = |level: usize| heading + 12.0 + pitch * (level as f64 + 0.5);

    svg.label("tick", Anchor::Start, (panel.left, heading), "level");
    for level in 0..levels.len() {
        svg.label("tick", Anchor::End, (panel.left + 26.0, centre(level) + 4.0), &level.to_string());
    }
    for (q, (title, size, format)) in quantities.iter().enumerate() {
        let left = first + column * q as f64;
        let largest = levels.iter().map(size).max().unwrap_or(0).max(1);
        let total: usize = levels.iter().map(size).sum();
        svg.label("tick", Anchor::Start, (left, heading), &format!("{title}, {} in all", format(total)));
        svg.line("axis", (left, heading + 10.0), (left, centre(levels.len() - 1) + pitch / 2.0));
        for (level, report) in levels.iter().enumerate() {
            let length = (longest * size(report) as f64 / largest as f64).max(1.0);
            svg.bar(COLOURS[q], (left, centre(level) - thickness / 2.0), length, thickness);
            svg.label("tick", Anchor::Start, (left + length + 6.0, centre(level) + 4.0), &format(size(report)));
        }
    }
}

/// A distance of ticks from 1, 2, 5, 10, 20, ... that gives at most ten of them.
fn nice_step(last: usize) -> usize {
    let mut decade = 1;
    loop {
        for factor in [1, 2, 5] {
            if last / (factor * decade) <= 10 {
                return factor * decade;
            }
        }
        decade *= 10;
    }
}

/// The end of a long name, which tells more of a path than its beginning.
fn shortened(name: &str, most: usize) -> String {
    let length = name.chars().count();
    if length <= most {
        name.to_string()
    } else {
        format!("\u{2026}{}", name.chars().skip(length - most).collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace::report::SolveReport;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!([0, 7, 10, 11, 16, 99, 101, 1000].map(nice_step), [1, 1, 1, 2, 2, 10, 10, 100]);
    }

    #[test]
    fn residuals_that_have_no_logarithm_are_left_out() {
        let history = vec![1.0, 0.0, f64::NAN, 1e-3];
        let solves = vec![SolveReport { history, true_residual: 1e-3, ..Default::default() }];
        let drawing = draw("a", &Report { solves, ..Default::default() });
        assert_eq!(drawing.matches("<circle").count(), 2);
        assert!(!drawing.contains("NaN") && !drawing.contains("inf"));
        assert!(draw("b", &Report::default()).contains("no residual was recorded"));
    }
}
