import pytest

from tasks.ingest.html import page_text

PAGE = """<!doctype html><html><head><title>The  page</title><style>p {color: red}</style></head><body>
<nav><a href="/">Home</a></nav><header>Site name</header>
<main><header><h1>Heading<a class="headerlink">¶</a></h1></header>
<p>First <b>bold</b>
words.</p><script>alert(1)</script><p>Second.</p>
<pre>if x:
    y &lt; 1</pre><ul><li>one<li>two</ul></main><footer>© nobody</footer></body></html>"""


def test_the_text_is_what_a_reader_of_the_page_sees():
    title, text = page_text(PAGE)
    assert title == "The page"
    assert text == "Heading\n\nFirst bold words.\n\nSecond.\n\n```\nif x:\n    y < 1\n```\n\none\ntwo"


def test_a_page_without_main_gives_its_body():
    assert page_text("<p>一<p>二<nav>menu</nav>")[1] == "一\n\n二"


def test_several_articles_are_all_read():
    assert page_text("<article>one</article><article>two</article>")[1] == "one\ntwo"


def test_nesting_deeper_than_the_interpreter_recurses_is_read():
    assert page_text("<div>" * 20_000 + "deep")[1] == "deep"


def test_cells_are_apart_and_rows_are_lines():
    assert page_text("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>")[1] == "a b\nc"


def test_a_line_break_is_one_and_space_around_a_block_is_none():
    assert page_text("<p>one<br>\n two </p>\n <div> three </div>")[1] == "one\ntwo\n\nthree"


@pytest.mark.parametrize("end", ["", "\n"])
def test_code_stands_between_fences(end):
    page = f"<p>before</p><pre><code>\n  a\n\n  <b>b</b>{end}</code></pre><p>after</p>"
    assert page_text(page)[1] == "before\n\n```\n\n  a\n\n  b\n```\n\nafter"


def test_code_within_code_is_fenced_once():
    assert page_text("<pre><pre class='playground'><code>a</code></pre></pre>")[1] == "```\na\n```"


def test_the_title_goes_into_meta(tmp_path, ingest):
    (tmp_path / "a.html").write_text(PAGE, "utf-8")
    assert '"title": "The page"' in ingest(tmp_path).rows[0]["meta"]


@pytest.mark.parametrize("encoding", ["windows-1252", "utf-8", "gb18030"])
def test_a_declared_encoding_is_believed_when_the_bytes_are_no_utf8(tmp_path, ingest, encoding):
    page = f'<html><head><meta charset="{encoding}"></head><body>Zürich, Besançon</body></html>'
    (tmp_path / "a.html").write_bytes(page.encode(encoding))
    assert ingest(tmp_path).texts == ["Zürich, Besançon"]
