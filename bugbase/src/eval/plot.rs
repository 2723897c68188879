//! Small plots as SVG: lines over steps, and groups of bars. Pure.
//!
//! Colours are readable on white and on black; text takes the page's colour where
//! the viewer lets it. Nothing is interactive.

use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 36.0;
const BOTTOM: f64 = 52.0;
const COLOURS: [&str; 6] = [
    "#2f7ed8", "#d9822b", "#3a9d5d", "#b04fc0", "#c23b3b", "#7a7a7a",
];

pub struct Series {
    pub name: String,
    /// One value for each step; `None` where there is none.
    pub values: Vec<Option<f64>>,
}

/// What a plot shows, whatever its form.
pub struct Plot<'a> {
    pub title: &'a str,
    pub across: &'a str,
    pub up: &'a str,
    /// Names of the steps or groups, from left to right.
    pub steps: Vec<String>,
    pub series: Vec<Series>,
}

impl Plot<'_> {
    /// Lines from step to step.
    pub fn lines(&self) -> String {
        self.drawn(|plot, text, scale| {
            for (number, series) in plot.series.iter().enumerate() {
                let colour = COLOURS[number % COLOURS.len()];
                let points = plot.points(series, scale);
                let path: Vec<String> = points
                    .iter()
                    .map(|(x, y)| format!("{x:.1},{y:.1}"))
                    .collect();
                let _ = writeln!(
                    text,
                    "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>",
                    path.join(" ")
                );
                for (x, y) in points {
                    let _ = writeln!(
                        text,
                        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"
                    );
                }
            }
        })
    }

    /// A group of bars for each step.
    pub fn bars(&self) -> String {
        self.drawn(|plot, text, scale| {
            let count = plot.series.len().max(1) as f64;
            let width = 0.8 * plot.step() / count;
            for (number, series) in plot.series.iter().enumerate() {
                let colour = COLOURS[number % COLOURS.len()];
                for (x, y) in plot.points(series, scale) {
                    let left = x - 0.4 * plot.step() + number as f64 * width;
                    let zero = scale.y(0.0);
                    let (top, height) = (y.min(zero), (y - zero).abs());
                    let _ = writeln!(
                        text,
                        "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
                    );
                }
            }
        })
    }

    fn step(&self) -> f64 {
        (WIDTH - LEFT - RIGHT) / self.steps.len().max(1) as f64
    }

    fn points(&self, series: &Series, scale: Scale) -> Vec<(f64, f64)> {
        let there = series.values.iter().enumerate();
        there
            .filter_map(|(at, value)| {
                let x = LEFT + (at as f64 + 0.5) * self.step();
                Some((x, scale.y((*value)?)))
            })
            .collect()
    }

    fn drawn(&self, body: impl Fn(&Self, &mut String, Scale)) -> String {
        let all = self.series.iter().flat_map(|s| s.values.iter().flatten());
        let scale = Scale::over(all.copied());
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"11\" fill=\"#777\">\n<title>{0}</title>\n\
             <text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{0}</text>\n",
            escaped(self.title)
        );
        for tick in scale.ticks() {
            let y = scale.y(tick);
            let _ = writeln!(
                text,
                "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#9995\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0,
                number(tick)
            );
        }
        for (at, step) in self.steps.iter().enumerate() {
            let x = LEFT + (at as f64 + 0.5) * self.step();
            let y = HEIGHT - BOTTOM + 16.0;
            let _ = writeln!(
                text,
                "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{}</text>",
                escaped(step)
            );
        }
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             <text x=\"14\" y=\"{:.1}\" transform=\"rotate(-90 14 {1:.1})\" text-anchor=\"middle\">{}</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 12.0,
            escaped(self.across),
            (TOP + HEIGHT - BOTTOM) / 2.0,
            escaped(self.up),
        );
        body(self, &mut text, scale);
        for (at, series) in self.series.iter().enumerate() {
            let y = TOP + 10.0 + 18.0 * at as f64;
            let x = WIDTH - RIGHT + 12.0;
            let _ = writeln!(
                text,
                "<rect x=\"{x}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{}\"/>\
                 <text x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
                y - 9.0,
                COLOURS[at % COLOURS.len()],
                x + 15.0,
                escaped(&series.name)
            );
        }
        text + "</svg>\n"
    }
}

/// From values to heights.
#[derive(Clone, Copy)]
struct Scale {
    low: f64,
    high: f64,
    tick: f64,
}

impl Scale {
    /// Round limits around the values, zero among them.
    fn over(values: impl Iterator<Item = f64>) -> Scale {
        let (low, high) = values
            .filter(|value| value.is_finite())
            .fold((0.0, 0.0), |(low, high): (f64, f64), value| {
                (low.min(value), high.max(value))
            });
        let range = if high > low { high - low } else { 1.0 };
        let rough = range / 5.0;
        let magnitude = 10f64.powf(rough.log10().floor());
        let tick = [1.0, 2.0, 5.0, 10.0]
            .map(|step| step * magnitude)
            .into_iter()
            .find(|step| *step >= rough)
            .unwrap_or(magnitude);
        Scale {
            low: (low / tick).floor() * tick,
            high: ((low + range) / tick).ceil() * tick,
            tick,
        }
    }

    fn y(self, value: f64) -> f64 {
        let share = (value - self.low) / (self.high - self.low);
        HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)
    }

    fn ticks(self) -> Vec<f64> {
        let count = ((self.high - self.low) / self.tick).round() as i32;
        (0..=count)
            .map(|at| self.low + f64::from(at) * self.tick)
            .collect()
    }
}

/// Without digits that say nothing.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match text {
        "-0" | "" => "0".to_owned(),
        text => text.to_owned(),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(values: Vec<Option<f64>>) -> Plot<'static> {
        Plot {
            title: "A < B",
            across: "σ",
            up: "%",
            steps: values.iter().map(|_| "s".to_owned()).collect(),
            series: vec![Series {
                name: "one".into(),
                values,
            }],
        }
    }

    #[test]
    fn values_become_points_and_what_is_missing_none() {
        let text = plot(vec![Some(0.0), None, Some(10.0)]).lines();
        assert_eq!(text.matches("<circle").count(), 2);
        assert!(text.contains("A &lt; B"), "{text}");
        // 0 lies on the axis, 10 at the top.
        let (axis, top) = (HEIGHT - BOTTOM, TOP);
        assert!(text.contains(&format!("cy=\"{axis:.1}\"")), "{text}");
        assert!(text.contains(&format!("cy=\"{top:.1}\"")), "{text}");
    }

    #[test]
    fn bars_stand_on_zero_also_below_it() {
        let text = plot(vec![Some(5.0), Some(-5.0)]).bars();
        // Besides the legend's.
        assert_eq!(text.matches("<rect").count(), 3);
        assert!(plot(vec![]).bars().ends_with("</svg>\n"));
    }

    #[test]
    fn limits_are_round() {
        let scale = Scale::over([3.0, 97.0].into_iter());
        assert_eq!((scale.low, scale.high, scale.tick), (0.0, 100.0, 20.0));
        assert_eq!(number(20.0), "20");
        assert_eq!(number(0.25), "0.25");
    }
}
