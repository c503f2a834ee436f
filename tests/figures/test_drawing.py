"""Pictures show what the table says: theory as lines, simulation as markers."""

import dataclasses
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

from interpolation_error.figures import drawing
from interpolation_error.figures.definition import read_figure
from interpolation_error.figures.gather import signal_share
from interpolation_error.figures.lines import line
from interpolation_error.figures.tables import Series, tabulate

ROOT = Path(__file__).parents[2]
STYLE = ROOT / "figures/paper.mplstyle"
FIGURES = sorted(path.parent.name for path in ROOT.glob("figures/*/figure.yaml"))


def described(name):
    return read_figure(ROOT / f"figures/{name}/figure.yaml", ROOT, {})


def invented(panel, labelled, rng):
    """Return a curve's numbers, where theory has something to say of the quantity."""
    curve = labelled.curve
    asked = panel.line(curve)
    finer = line(curve, asked["x_scale"], asked["row_scale"])
    predicted = rng.uniform(0.1, 0.9, np.prod(finer.shape))
    if curve.measure == "linearization" or panel.quantity in (
        "shortfall",
        "over_limit",
    ):
        predicted[:] = np.nan
    return Series(
        panel.name,
        labelled.name,
        curve.parameter,
        curve.values,
        finer.values,
        rng.uniform(0.1, 0.9, (3, np.prod(curve.shape))),
        predicted,
        curve.row_parameter,
        curve.rows or (np.nan,),
        finer.rows or (np.nan,),
        panel.fit,
        rng.uniform(0.1, 0.9, np.prod(curve.shape)) if asked["finite_size"] else None,
        np.array([signal_share(setting) for setting in curve]),
    )


def invented_table(figure):
    rng = np.random.default_rng(0)
    return tabulate(
        invented(panel, curve, rng) for panel in figure.panels for curve in panel.curves
    )


def cells(figure):
    """Return panel and row of every axis, in order; a map has one for each curve."""
    found = []
    for panel in figure.panels:
        if panel.kind == "map":
            found += [(panel, None)] * len(panel.curves)
        elif panel.overlay:
            found.append((panel, None))
        else:
            found += [(panel, row) for row in panel.curves[0].curve.rows or (None,)]
    return found


@pytest.fixture(params=FIGURES)
def figure(request):
    mpl.use("Agg")
    drawing.use_style(STYLE)
    return described(request.param)


def known(values):
    return values.dropna().size > 0


def shown(line):
    """Return what a line shows and how."""
    return {
        "x": np.asarray(line.get_xdata(), float),
        "y": np.asarray(line.get_ydata(), float),
        "color": mpl.colors.to_hex(line.get_color()),
        "line": line.get_linestyle(),
        "marker": line.get_marker(),
        "alpha": 1.0 if line.get_alpha() is None else line.get_alpha(),
    }


def assert_shown(artist, **wanted):
    found = shown(artist)
    for name, value in wanted.items():
        if name in "xy":
            np.testing.assert_array_equal(found[name], value)
        else:
            assert found[name] == value, name


def colors(look, place):
    """Return the colours of simulation and theory, of the style's cycle if not said."""
    cycle = mpl.rcParams["axes.prop_cycle"].by_key()["color"]
    color = look["color"] or cycle[place % len(cycle)]
    return [mpl.colors.to_hex(one) for one in (color, look["theory_color"] or color)]


def of_look(table, panel, look, row):
    """Return the rows of a table that one curve of an axis has to show."""
    rows = table[(table.panel == panel.name) & (table.curve == look["name"])]
    row = look.get("row", row)
    if row is not None:
        rows = rows[np.isclose(rows["row"], row)]
    return rows.dropna(subset=panel.x_as) if panel.x_as else rows


def check_sweep(axis, table, panel, row):
    """Hold all markers, bars and lines of an axis against the table, in order."""
    along = panel.x_as or "x"
    drawn = axis.containers
    apart = {id(part) for one in drawn for part in (one.lines[0], *one.lines[1])}
    lines = iter([line for line in axis.lines if id(line) not in apart])
    looks = panel.looks()
    assert len(drawn) == len(looks)
    for place, (look, container) in enumerate(zip(looks, drawn, strict=True)):
        color, theory_color = colors(look, place)
        rows = of_look(table, panel, look, row)
        points = rows.dropna(subset="simulated_mean")
        markers, _, (bars,) = container.lines
        mean, x = points["simulated_mean"], points[along]
        assert_shown(
            *(markers,),
            **{"x": x, "y": mean, "color": color, "line": "None"},
            **{"marker": look["marker"] or "o", "alpha": 1.0},
        )
        ends = [[(x, low), (x, high)] for x, low, high in simulated(points, along)]
        np.testing.assert_allclose(bars.get_segments(), ends, rtol=1e-12, atol=1e-14)
        assert {mpl.colors.to_hex(one) for one in bars.get_edgecolor()} == {color}
        theory = {"color": theory_color, "line": look["line"] or "-"}
        finite_size = points["predicted_at_finite_size"]
        if known(rows["predicted"]):
            alpha = drawing.PALE if known(finite_size) else 1.0
            wanted = {"x": rows[along], "y": rows["predicted"], "alpha": alpha}
            assert_shown(next(lines), **theory, **wanted)
        if known(finite_size):
            assert_shown(next(lines), **theory, x=x, y=finite_size, alpha=1.0)
        slope, low, high = points[["slope", "slope_low", "slope_high"]].iloc[0]
        if panel.fit and high - low < 2 and mean.min() > 0:
            fitted = next(lines)
            assert_shown(fitted, x=points["x"], color=color, line=":")
            rise = np.diff(np.log(fitted.get_ydata())) / np.diff(np.log(points["x"]))
            np.testing.assert_allclose(rise, slope, rtol=1e-6)
    levels = {"over_limit": 1, "shortfall": 0, "difference": 0, "ratio": 1}
    level = levels.get(panel.quantity)
    if panel.quantity == "shortfall" and panel.y_scale == "log":
        level = None  # which has no zero
    assert [list(line.get_ydata()) for line in lines] == (
        [] if level is None else [[level, level]]
    )


def simulated(points, along):
    columns = [along, "simulated_low", "simulated_high"]
    return points[columns].to_numpy()


def check_histogram(axis, table, panel):
    """Hold the bars and the densities of an axis against the table."""
    filled = [patch for patch in axis.patches if patch.get_fill()]
    for place, (look, bars, density) in enumerate(
        zip(panel.looks(), filled, axis.lines, strict=True)
    ):
        color, theory_color = colors(look, place)
        rows = of_look(table, panel, look, None)
        rows = rows[rows["x"] > 0]
        points = rows.dropna(subset="simulated_mean")
        heights, edges, _ = bars.get_data()
        np.testing.assert_array_equal(heights, points["simulated_mean"])
        middles = np.sqrt(edges[1:] * edges[:-1])
        np.testing.assert_allclose(middles, points["x"], rtol=1e-9)
        assert mpl.colors.to_hex(bars.get_facecolor()) == color
        wanted = {"x": rows["x"], "y": rows["predicted"], "color": theory_color}
        assert_shown(density, **wanted, line=look["line"] or "-")


def check_map(axis, table, panel, curve):
    """Hold the colours and the points of a map against the table."""
    rows = of_look(table, panel, {"name": curve.name}, None)
    finite_size = known(rows["predicted_at_finite_size"])
    column = "predicted_at_finite_size" if finite_size else "predicted"
    grid = rows.dropna(subset=column).pivot(index="row", columns="x", values=column)
    surface = axis.collections[0]
    np.testing.assert_array_equal(
        np.ravel(surface.get_array()), grid.to_numpy().ravel()
    )
    corners = surface.get_coordinates()
    np.testing.assert_array_equal(corners[0, :, 0], grid.columns)
    np.testing.assert_array_equal(corners[:, 0, 1], grid.index)
    points = rows.dropna(subset="simulated_mean")
    above, below = points["simulated_low"] > 1, points["simulated_high"] < 1
    shades = mpl.cm.ScalarMappable(surface.norm, "cividis")
    shapes = [mpl.markers.MarkerStyle(marker) for marker in "^vo"]
    for marked, chosen, shape in zip(
        axis.collections[-3:], (above, below, ~(above | below)), shapes, strict=True
    ):
        mine = points[chosen]
        np.testing.assert_array_equal(marked.get_offsets(), mine[["x", "row"]])
        wanted = shades.to_rgba(mine["simulated_mean"].to_numpy())
        np.testing.assert_array_equal(marked.get_facecolors(), wanted)
        outline = shape.get_path().transformed(shape.get_transform()).vertices
        np.testing.assert_array_equal(marked.get_paths()[0].vertices, outline)


def check_legend(picture, figure):
    """Hold the look of each entry to that of its curve: no two are exchanged."""
    entries = {
        entry.get_label(): shown(entry)
        for entry in picture.legends[0].legend_handles
        if isinstance(entry, mpl.lines.Line2D)
    }
    written = [text.get_text() for text in picture.legends[0].get_texts()]
    handles = picture.legends[0].legend_handles
    assert written == [handle.get_label() for handle in handles]
    for panel in figure.panels:
        for place, look in enumerate(panel.looks() if panel.kind != "map" else ()):
            color, theory_color = colors(look, place)
            if color == theory_color:
                entry = entries[look["label"]]
                assert entry["color"] == color
                assert (entry["line"], entry["marker"]) != ("none", "none")
                assert entry["line"].lower() in ("none", look["line"] or "-")
                assert entry["marker"] in ("none", look["marker"] or "o")
                continue
            simulation = entries[f"{look['label']}, simulation (mean, 95 % interval)"]
            theory = entries[f"{look['label']}, theory"]
            assert (simulation["color"], simulation["line"]) == (color, "None")
            assert simulation["marker"] == (look["marker"] or "o")
            assert (theory["color"], theory["line"]) == (
                theory_color,
                look["line"] or "-",
            )


def test_what_is_drawn_is_what_the_table_says_of_each_curve(figure):
    """Not just somewhere: each curve in its own place, look, axis and scale."""
    table = invented_table(figure)
    # Around 1, so that maps have points of each outcome; with bars of unequal ends.
    mean = 2 * table["simulated_mean"]
    bounds = {"simulated_low": 0.9 * mean, "simulated_high": 1.2 * mean}
    table = table.assign(simulated_mean=mean, **bounds)
    # Every power law is known to within 1.
    table = table.assign(
        slope_low=table["slope"] - 0.3, slope_high=table["slope"] + 0.3
    )
    picture = drawing.draw(table, figure.drawing())
    maps = iter([c for p in figure.panels if p.kind == "map" for c in p.curves])
    places = cells(figure)
    for axis, (panel, row) in zip(picture.axes, places, strict=False):
        assert axis.get_visible()
        assert (axis.get_xscale(), axis.get_yscale()) == (panel.x_scale, panel.y_scale)
        title = axis.get_title().splitlines()[0]
        if panel.kind == "map":
            curve = next(maps)
            assert title == f"{panel.title}: {curve.label}"
            check_map(axis, table, panel, curve)
            continue
        assert title == panel.title
        if panel.kind == "histogram":
            check_histogram(axis, table, panel)
        else:
            check_sweep(axis, table, panel, row)
    check_legend(picture, figure)
    assert picture.get_suptitle() == figure.title
    # What is left is the bar of colours, and places of the grid that hold nothing.
    rest = [axis for axis in picture.axes[len(places) :] if axis.get_visible()]
    assert [axis.get_ylabel() for axis in rest] == (
        [drawing.QUANTITY_LABELS["ratio"]]
        if any(panel.kind == "map" for panel in figure.panels)
        else []
    )


def test_axes_have_symbols_and_the_panel_its_parameters(figure):
    picture = drawing.draw(invented_table(figure), figure.drawing())
    for axis, (panel, row) in zip(picture.axes, cells(figure), strict=False):
        assert axis.get_xlabel() == drawing.AXIS_LABELS[panel.x_as or panel.parameter]
        if panel.kind == "map":
            rows = panel.curves[0].curve.row_parameter
            assert axis.get_ylabel() == drawing.AXIS_LABELS[rows]
        else:
            assert axis.get_ylabel() == drawing.QUANTITY_LABELS[panel.quantity]
        assert panel.fixed() in axis.get_title()
        assert row is None or f" = {row:g}" in axis.get_title()


def bars(axis):
    """Return the heights of an axis's histograms that are filled."""
    return [patch.get_data().values for patch in axis.patches if patch.get_fill()]


def test_a_histogram_shows_every_bin_and_the_share_at_zero():
    drawing.use_style(STYLE)
    figure = described("spectrum")
    table = invented_table(figure)
    picture = drawing.draw(table, figure.drawing())
    panel = figure.panels[0]
    for curve, heights in zip(panel.curves, bars(picture.axes[0]), strict=True):
        rows = table[(table.panel == panel.name) & (table.curve == curve.name)]
        rows = rows[rows["x"] > 0].dropna(subset="simulated_mean")
        assert np.array_equal(heights, rows["simulated_mean"])


def test_a_share_at_zero_is_named_with_its_curves_where_they_differ():
    drawing.use_style(STYLE)
    figure = described("spectrum")
    table = invented_table(figure)
    at_zero = (table.panel == "density_quarter") & (table["x"] == 0)
    columns = ["simulated_mean", "predicted"]
    table.loc[at_zero, columns] = 0.75
    same = drawing.draw(table, figure.drawing()).axes[0].get_title()
    assert same.endswith("\nshare at 0: 0.750 (theory 0.750)")
    table.loc[at_zero & (table.curve == "cos"), columns] = 0.5, 0.25
    title = drawing.draw(table, figure.drawing()).axes[0].get_title()
    assert title.splitlines()[2:] == [
        "tanh, sign, truncated exp at 0:",
        "0.750 (theory 0.750)",
        "cos at 0: 0.500 (theory 0.250)",
    ]


def test_a_map_marks_what_each_simulated_point_says_of_the_line_of_ones():
    drawing.use_style(STYLE)
    figure = described("random_inputs")
    figure = dataclasses.replace(figure, panels=figure.panels[:1])
    table = invented_table(figure)
    rows = table[table.curve == "tanh"].dropna(subset="simulated_mean")
    picture = drawing.draw(table, figure.drawing())
    marked = sum(len(c.get_offsets()) for c in picture.axes[0].collections[-3:])
    assert marked == len(rows)


def test_a_fitted_exponent_is_written_where_it_is_known():
    drawing.use_style(STYLE)
    figure = described("linearization")
    table = invented_table(figure)
    known = table.assign(slope=-0.5, slope_low=-0.6, slope_high=-0.4)
    picture = drawing.draw(known, figure.drawing())
    # One a curve, in a list, so that none is printed over another.
    words = [text.get_text() for text in picture.axes[0].get_legend().get_texts()]
    assert words == ["\N{MINUS SIGN}0.50 ± 0.10"] * len(figure.panels[0].curves)
    unknown = table.assign(slope=-0.5, slope_low=-1.6, slope_high=0.6)
    picture = drawing.draw(unknown, figure.drawing())
    assert picture.axes[0].get_legend() is None


def test_the_legend_names_every_curve_and_tells_theory_from_simulation(figure):
    picture = drawing.draw(invented_table(figure), figure.drawing())
    words = " ".join(text.get_text() for text in picture.legends[0].get_texts())
    for panel in figure.panels:
        for curve in panel.curves:
            assert panel.kind == "map" or curve.label in words
    assert "theory" in words or figure.name == "linearization"
    assert "simulation" in words


def test_curves_of_a_panel_differ_in_more_than_colour(figure):
    for panel in figure.drawing()["panels"]:
        looks = [(c["marker"], c["line"]) for c in panel["curves"]]
        if panel["kind"] == "histogram":
            looks = [c["line"] for c in panel["curves"]]
        assert len(set(looks)) == len(looks)


def legend(picture):
    """Return colour and strength, marker and line of what the legend has of curves."""
    return {
        line.get_label(): (
            (line.get_color(), line.get_alpha()),
            line.get_marker(),
            line.get_linestyle(),
        )
        for line in picture.legends[0].legend_handles
        if isinstance(line, mpl.lines.Line2D)
    }


def test_no_look_in_the_legend_stands_for_two_curves(figure):
    picture = drawing.draw(invented_table(figure), figure.drawing())
    shown = legend(picture)
    assert len(set(shown.values())) == len(shown)
    looks = {}
    for panel in figure.drawing()["panels"]:
        for curve in panel["curves"]:
            look = tuple(curve[key] for key in ("color", "marker", "line"))
            if panel["kind"] != "map":
                assert looks.setdefault(curve["label"], look) == look
    # Without colours too.
    grey = [look[1:] for label, look in shown.items() if label in looks]
    assert len(set(grey)) == len(grey)


def test_the_legend_shows_no_line_where_there_is_none():
    drawing.use_style(STYLE)
    figure = described("heads")
    table = invented_table(figure)
    several = table.curve.ne("regression") & table.x.gt(1)
    table.loc[several, "predicted"] = np.nan
    picture = drawing.draw(table, figure.drawing())
    lines = {label: line for label, (_, _, line) in legend(picture).items()}
    for curve in figure.panels[0].curves:
        assert lines[curve.label] == (":" if curve.name == "regression" else "None")
    # What theory says of one head is a dash.
    assert "theory, where it has one value" in lines
    sizes = [line.get_markersize() for line in picture.axes[0].lines]
    assert sizes.count(drawing.LONE_SIZE) >= 3


def test_nothing_sticks_out(figure):
    table = invented_table(figure)
    # Shares at 0 that agree, as those of a spectrum do.
    table.loc[table["x"] == 0, ["simulated_mean", "predicted"]] = 0.5
    picture = drawing.draw(table, figure.drawing())
    picture.draw_without_rendering()
    page = picture.bbox.padded(1)
    parts = [picture.legends[0], *(axis.title for axis in picture.axes)]
    for part in parts:
        box = part.get_window_extent()
        assert page.x0 <= box.x0 <= box.x1 <= page.x1, part
    for axis, (panel, _) in zip(picture.axes, cells(figure), strict=False):
        label = axis.yaxis.label.get_window_extent()
        assert label.height <= axis.bbox.height, panel.name


def test_the_numbers_of_a_map_are_whole_and_on_its_lines():
    drawing.use_style(STYLE)
    figure = described("random_inputs")
    table = smooth(invented_table(figure))
    picture = drawing.draw(table, figure.drawing())
    picture.draw_without_rendering()
    axis = picture.axes[0]
    assert {text.get_text() for text in axis.texts} >= {"0.5", "0.8", "2"}
    for text in axis.texts:
        box = text.get_window_extent()
        assert axis.bbox.containsx(box.x0)
        assert axis.bbox.containsx(box.x1)
        # A ratio of 10^(4 h - 2) at height h.
        height = text.get_position()[1]
        assert 10 ** (4 * height - 2) == pytest.approx(float(text.get_text()), rel=0.02)


def smooth(table):
    """Return a table whose ratios go from 0.01 to 100 with the row alone."""
    height = np.log(table["row"])
    height = (height - height.min()) / (height.max() - height.min())
    return table.assign(predicted=10 ** (4 * height - 2))


@pytest.mark.parametrize(
    ("ratios", "extend"),
    [
        ((1.0, 2.0), "neither"),
        ((1.0, 9.0), "max"),
        ((0.1, 2), "min"),
        ((0.1, 9), "both"),
    ],
)
def test_the_colour_bar_is_open_where_ratios_leave_it(ratios, extend):
    drawing.use_style(STYLE)
    figure = described("random_inputs")
    table = invented_table(figure)
    table["predicted"] = np.where(table["row"] > 1, *ratios)
    picture = drawing.draw(table, figure.drawing())
    assert picture.axes[0].collections[0].colorbar.extend == extend


def test_what_a_logarithmic_axis_cannot_show_is_said():
    drawing.use_style(STYLE)
    figure = described("finite_size")
    table = invented_table(figure)
    place = [panel.name for panel in figure.panels].index("strong_distance")
    axis = drawing.draw(table, figure.drawing()).axes[place]
    assert "without marker" not in axis.get_title()
    mean = ["simulated_low", "simulated_mean", "simulated_high"]
    table.loc[table.panel == "strong_distance", mean] -= 1
    axis = drawing.draw(table, figure.drawing()).axes[place]
    assert axis.get_title().endswith("\nbar without marker: mean not above 0")


@pytest.mark.parametrize("kind", drawing.FORMATS)
def test_drawing_twice_gives_the_same_bytes(tmp_path, kind):
    drawing.use_style(STYLE)
    figure = described("linear_regression")
    figure = dataclasses.replace(figure, panels=figure.panels[:1])
    table = invented_table(figure)
    for name in ("a", "b"):
        drawing.save(drawing.draw(table, figure.drawing()), tmp_path / f"{name}.{kind}")
    one, other = (tmp_path / f"{name}.{kind}" for name in ("a", "b"))
    assert one.read_bytes() == other.read_bytes()


def test_a_curve_without_rows_is_named():
    figure = described("nonlinear_attention")
    table = invented_table(figure)
    table = table[table.curve != "cos"]
    with pytest.raises(ValueError, match="the table lacks gamma/cos"):
        drawing.draw(table, figure.drawing())


def test_a_missing_style_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"none\.mplstyle: cannot be read"):
        drawing.use_style(tmp_path / "none.mplstyle")
