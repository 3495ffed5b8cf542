from ottla.console.markup import Column, badge, join, link, path, table, tag


def test_text_never_becomes_markup() -> None:
    assert tag("p", "<script>alert(1)</script> & co") == "<p>&lt;script&gt;alert(1)&lt;/script&gt; &amp; co</p>"


def test_attributes_are_escaped_too() -> None:
    assert tag("a", "x", href='/"onclick="y') == '<a href="/&quot;onclick=&quot;y">x</a>'


def test_what_tag_made_stands_as_it_is() -> None:
    assert tag("p", tag("b", "<")) == "<p><b>&lt;</b></p>"


def test_names_of_attributes_are_those_of_html() -> None:
    assert tag("i", class_="a", data_key="b", hidden=True, title=None, open=False) == (
        '<i class="a" data-key="b" hidden></i>'
    )


def test_what_stands_between_is_escaped() -> None:
    assert join(["a", tag("b", "c")], " & ") == "a &amp; <b>c</b>"


def test_a_path_escapes_its_parts() -> None:
    assert path("groups", "a/b?c") == "/groups/a%2Fb%3Fc"


def test_a_name_of_a_topic_can_be_anything_a_broker_says() -> None:
    assert "<img" not in link("<img>", path("topics", '"><img>'))


def test_a_table_without_rows_says_so() -> None:
    assert table([Column("A")], [], label="As", empty="None.") == '<p class="empty">None.</p>'


def test_the_first_cell_of_a_row_is_its_header() -> None:
    shown = table([Column("A"), Column("B", number=True)], [["x", 1]], label="As", empty="")

    assert '<th scope="row">x</th><td class="num">1</td>' in shown


def test_a_badge_has_its_kind() -> None:
    assert badge("late", "bad") == '<span class="badge bad">late</span>'
