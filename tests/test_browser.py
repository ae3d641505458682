"""Pictures and notebook views open in a real browser without an error, and no text leaves its box."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from docs.pictures import HERE
from tests.browser import opened
from tests.model.large import large

pytestmark = pytest.mark.slow

# Measures what is seen: errors, pictures that did not load, and texts that are wider than the box that they stand in.
PAGE = """<!doctype html><meta charset="utf-8"><script>
const wrong = [];
addEventListener("error", event => wrong.push(String(event.message || event.target.src || event.target)), true);
addEventListener("load", () => {
  for (const image of document.images) if (!image.naturalWidth) wrong.push("empty: " + image.src);
  let texts = 0;
  for (const box of document.querySelectorAll(".strandline-flow g > rect")) {
    const edge = box.getBoundingClientRect();
    for (const text of box.parentNode.querySelectorAll("text")) {
      const seen = text.getBoundingClientRect();
      texts += 1;
      if (seen.left < edge.left - 1 || seen.right > edge.right + 1 || seen.top < edge.top - 1 || seen.bottom > edge.bottom + 1)
        wrong.push("outside of its box: " + text.textContent);
    }
  }
  const answer = document.createElement("pre");
  answer.id = "answer";
  answer.textContent = JSON.stringify({wrong, texts, images: document.images.length});
  document.body.append(answer);
});
</script><body>BODY</body>"""


def test_the_picture_and_the_notebook_view_of_a_flow_open_without_errors(tmp_path: Path) -> None:
    flow = large()
    (tmp_path / "flow.svg").write_text(flow.svg(), encoding="utf-8")
    pictures = [tmp_path / "flow.svg", *sorted(HERE.glob("*.svg"))]
    images = "".join(f'<img src="{each.as_uri()}">' for each in pictures)
    page = tmp_path / "page.html"
    page.write_text(PAGE.replace("BODY", images + flow._repr_html_()), encoding="utf-8")
    dom, said = opened(page, tmp_path / "browser")
    answer = re.search(r'<pre id="answer">(.*?)</pre>', dom)
    assert answer is not None, dom[-2000:]
    found = json.loads(answer[1].replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))
    assert found["wrong"] == []
    assert said == []
    assert found["images"] == len(pictures)
    assert found["texts"] > 100
