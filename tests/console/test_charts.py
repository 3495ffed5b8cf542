import pytest

from ottla.console.charts import Series, line_chart, nice_ceiling, sparkline, unbroken
from ottla.console.text import duration


@pytest.mark.parametrize(
    ("highest", "top"), [(0, 1), (0.3, 0.4), (1, 1), (3, 4), (4.1, 5), (7, 8), (9, 10), (11, 20), (1_999, 2_000)]
)
def test_axes_end_at_round_figures(highest: float, top: float) -> None:
    assert nice_ceiling(highest) == pytest.approx(top)


def test_a_line_needs_two_points() -> None:
    assert "<svg" not in line_chart([Series(name="a", points=[(1, 2.0)])], label="a", shows=duration)


def test_the_legend_has_the_last_value() -> None:
    shown = line_chart([Series(name="orders-0", points=[(0, 1.0), (5_000, 90.0)])], label="a", shows=duration)

    assert "orders-0<b>1 min 30 s</b>" in shown


def test_the_line_is_broken_where_nobody_looked() -> None:
    points = [(at, 1.0) for at in (0, 10, 20, 30, 500, 510, 520)]

    assert [len(part) for part in unbroken(points)] == [4, 3]


def test_elements_of_svg_are_closed() -> None:
    shown = sparkline([0.0, 1.0, 2.0], "rate")

    assert shown.count("<polyline") == shown.count("</polyline>") == 2


def test_names_in_a_chart_are_text() -> None:
    shown = line_chart([Series(name="<b>", points=[(0, 1.0), (1, 2.0)])], label="<x>", shows=str)

    assert "<b>:" not in shown
    assert "&lt;b&gt;" in shown
