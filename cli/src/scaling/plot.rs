//! The picture of weak scaling: efficiency of an iteration over the number of GPUs.

use crate::svg::{Anchor, Svg};

const STYLE: &str = "\
text { font-family: system-ui, 'DejaVu Sans', Helvetica, Arial, sans-serif; font-size: 12px; fill: #333333; }
.title { font-size: 16px; font-weight: 600; fill: #111111; }
.grid { stroke: #e6e6e6; stroke-width: 1; }
.curve { fill: none; stroke-width: 2; stroke-linejoin: round; }
";

const CURVES: [(&str, &str); 2] =
    [("#0072b2", "messages from device memory"), ("#d55e00", "by way of the host, as today")];
const LEFT: f64 = 64.0;
const RIGHT: f64 = 600.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 320.0;

/// Draws the efficiencies of each number of GPUs.
pub fn draw(title: &str, points: &[(f64, [f64; 2])]) -> String {
    let mut svg = Svg::new(640.0, 390.0, STYLE);
    svg.label("title", Anchor::Start, (24.0, 34.0), title);
    let most = points.iter().map(|(gpus, _)| *gpus).fold(2.0, f64::max);
    let x = |gpus: f64| LEFT + (RIGHT - LEFT) * gpus.log2() / most.log2();
    let y = |efficiency: f64| BOTTOM - (BOTTOM - TOP) * efficiency;
    for tenths in (0..=10).step_by(2) {
        let efficiency = f64::from(tenths) / 10.0;
        svg.line("grid", (LEFT, y(efficiency)), (RIGHT, y(efficiency)));
        svg.label("tick", Anchor::End, (LEFT - 8.0, y(efficiency) + 4.0), &format!("{efficiency:.1}"));
    }
    for (gpus, _) in points {
        svg.line("grid", (x(*gpus), TOP), (x(*gpus), BOTTOM));
        svg.label("tick", Anchor::Middle, (x(*gpus), BOTTOM + 18.0), &gpus.to_string());
    }
    svg.label("tick", Anchor::Middle, ((LEFT + RIGHT) / 2.0, BOTTOM + 38.0), "GPUs");
    svg.upward_label("tick", (20.0, (TOP + BOTTOM) / 2.0), "efficiency of an iteration, model");
    for (k, (colour, name)) in CURVES.iter().enumerate() {
        let curve: Vec<(f64, f64)> = points.iter().map(|(gpus, of)| (x(*gpus), y(of[k].min(1.0)))).collect();
        svg.polyline("curve", colour, &curve);
        curve.iter().for_each(|at| svg.circle(colour, *at, 3.0));
        let at = (LEFT + 16.0, BOTTOM - 34.0 + 18.0 * k as f64);
        svg.bar(colour, (at.0, at.1 - 8.0), 18.0, 4.0);
        svg.label("tick", Anchor::Start, (at.0 + 26.0, at.1), name);
    }
    svg.finish()
}
