# SPDX-License-Identifier: Apache-2.0
"""The page of ostraka-plan in Chromium: what it shows is what --json says, at every number of ranks."""
import sys
import unittest

from browser import Browser, find

from support import MODELS, ToolTest, bytes_text, outcomes, seconds_text

PROGRAM = find()
RANKS = "8..128"
ROW = """[...document.querySelectorAll('section.point:not([hidden]) tbody tr')].map((row) => ({
  recipe: row.dataset.recipe, kind: row.className, cells: Object.fromEntries([...row.querySelectorAll('td[data-key]')].map(
    (cell) => [cell.dataset.key, [cell.innerText, cell.dataset.value || null]]))}))"""
BARS = """[...document.querySelectorAll('section.point:not([hidden]) svg.bars rect[data-bytes]')].map(
  (box) => [box.dataset.bytes, box.getBoundingClientRect().width])"""
STEPS = "[...document.querySelectorAll('.step')].filter((step) => step.checkVisibility()).map((step) => step.dataset.recipe)"


def expected_cells(outcome):
    held = outcome["bytes"]
    numbers = {"model_weights": held["model_weights"], "main_weights": held["main_weights"],
               "gradients": held["main_gradients"] + held["addends"], "moments": held["moments"],
               "transient_peak": held["transient_peak"], "peak": held["peak"],
               "node_peak": outcome["node_bytes"]["peak"], "sent": sum(axis["sent"] for axis in outcome["axes"])}
    cells = {key: [bytes_text(value), str(value)] for key, value in numbers.items()}
    cells |= {key: [seconds_text(outcome[key]), None] for key in ("step_s", "exposed_s")}
    verdict = "cheapest" if outcome["cheapest"] else "fits" if outcome["fits"] else "too large"
    return cells | {"verdict": [verdict, None]}


class Page(ToolTest):
    def setUp(self):
        super().setUp()
        self.page = self.folder / "plan.html"
        self.asked = [MODELS / "llama-3-8b.json", "--mesh", "node=*,gpu=8", "--ranks", RANKS, "--memory", "40GiB",
                      "--storage", "bf16", "--micro-batches", "2"]
        self.document = self.json(*self.asked, "--html", self.page)
        self.browser = Browser(PROGRAM)
        self.addCleanup(self.browser.close)
        self.browser.open(self.page.as_uri())

    def tearDown(self):
        self.assertEqual(self.browser.errors, [])
        self.assertEqual([url for url in self.browser.requests if not url.startswith(("data:", self.page.as_uri()))], [])

    def slider(self):
        return self.browser.run("Number(document.getElementById('ranks').value)")

    def expect_shown(self, index):
        point = self.document["points"][index]
        self.assertEqual(self.slider(), index)
        self.assertEqual(self.browser.run("document.querySelectorAll('section.point:not([hidden])').length"), 1)
        self.assertEqual(self.browser.run("document.getElementById('ranks-text').innerText"), str(point["ranks"]))
        self.assertIn(f"{point['ranks']} ranks on", self.browser.run("document.querySelector('section.point:not([hidden]) h2').innerText"))
        rows = {row["recipe"]: row for row in self.browser.run(ROW)}
        expected = outcomes(self.document, index)
        self.assertEqual(list(rows), list(expected))
        for recipe, outcome in expected.items():
            self.assertEqual(rows[recipe]["cells"], expected_cells(outcome), recipe)
        self.expect_bars(list(expected.values()))
        cheapest = next(outcome["recipe"] for outcome in point["outcomes"] if outcome["cheapest"])
        self.assertEqual(self.browser.run(STEPS), [cheapest])

    def expect_bars(self, shown):
        """Every kind has a box whose width is its part of the whole."""
        boxes = self.browser.run(BARS)
        kinds = [number for outcome in shown for key, (_, number) in expected_cells(outcome).items()
                 if key in ("model_weights", "main_weights", "gradients", "moments", "transient_peak") and number != "0"]
        self.assertEqual([number for number, _ in boxes], kinds)
        number, width = max(boxes, key=lambda box: int(box[0]))
        scale = width / int(number)
        for number, width in boxes:
            self.assertAlmostEqual(width, int(number) * scale, delta=0.2)

    def test_slider_by_keys_and_mouse(self):
        self.expect_shown(0)
        self.browser.run("document.getElementById('ranks').focus()")
        self.browser.press("ArrowRight", 39)
        self.expect_shown(1)
        self.browser.press("End", 35)
        self.expect_shown(len(self.document["points"]) - 1)
        self.browser.press("ArrowLeft", 37)
        self.expect_shown(len(self.document["points"]) - 2)
        self.browser.press("Home", 36)
        self.expect_shown(0)
        box = self.browser.run("(({x, y, width, height}) => [x, y, width, height])(document.getElementById('ranks').getBoundingClientRect())")
        self.browser.click(box[0] + box[2] / 2, box[1] + box[3] / 2)
        self.expect_shown(2)

    def test_time_line_of_a_recipe(self):
        self.browser.run("document.querySelector('input[name=recipe]').focus()")
        self.browser.press("ArrowDown", 40)
        self.assertEqual(self.browser.run("document.activeElement.value"), "no_shard")
        self.assertEqual(self.browser.run(STEPS), ["no_shard"])
        self.assertGreater(self.browser.run("[...document.querySelectorAll('section.point:not([hidden]) .step:not([hidden]) "
                                            "svg :is(rect, path):is(.forward, .backward, .gather, .reduce, .update)')].length"), 10)
        self.assertEqual(self.browser.run("location.hash"), "#ranks=8&recipe=no_shard")
        self.browser.open(self.page.as_uri())
        self.browser.run("location.hash = '#ranks=32&recipe=zero_3'")
        self.browser.call("Runtime.evaluate", expression="new Promise((done) => setTimeout(done, 50))", awaitPromise=True)
        self.assertEqual(self.browser.run(STEPS), ["zero_3"])
        self.assertEqual(self.slider(), 2)

    def test_light_and_dark(self):
        """Text differs from its ground by WCAG's 4.5 : 1."""
        contrast = """(() => {
          const light = (text) => text.match(/[\\d.]+/g).slice(0, 3).map((c) => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; })
            .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
          const paper = light(getComputedStyle(document.body).backgroundColor);
          return ['body', '.soft', 'svg text', 'tr.unfit td', '.limit-text'].map((name) => {
            const element = document.querySelector('section.point:not([hidden]) ' + name) || document.querySelector(name);
            const style = getComputedStyle(element), ink = light(element instanceof SVGElement ? style.fill : style.color);
            return [name, (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05)];
          }); })()"""
        grounds = set()
        for dark in (False, True):
            self.browser.set_dark(dark)
            grounds.add(self.browser.run("getComputedStyle(document.body).backgroundColor"))
            for name, found in self.browser.run(contrast):
                self.assertGreaterEqual(found, 4.5, (dark, name))
        self.assertEqual(len(grounds), 2)

    def test_narrow_window(self):
        self.browser.call("Emulation.setDeviceMetricsOverride", width=400, height=800, deviceScaleFactor=1, mobile=False)
        self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), 400)

    def test_hostile_names(self):
        bad = "</script><script>window.bad = 1</script><img src=x onerror='window.bad = 1'>&\""
        model = self.model({"model": bad, "units": [{"unit": bad, "count": 2, "tensors": [[bad, [512, 512]]]}]})
        self.succeed(model, "--ranks", "4", "--html", self.page, "--svg", self.folder / "plan.svg", "--force")
        self.browser.open(self.page.as_uri())
        self.assertIsNone(self.browser.run("window.bad"))
        self.assertIn(bad, self.browser.run("document.querySelector('h1').innerText"))
        self.assertTrue(self.browser.run("document.getElementById('ranks').disabled"))


if PROGRAM is None:
    print("page_test: neither of chromium-headless-shell, chromium, google-chrome is here; scripts/setup installs the first")
    sys.exit(77)
unittest.main()
