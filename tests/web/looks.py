"""What can be measured of how a page looks."""

from playwright.sync_api import Page

# Of every text that is shown: how far its colour is from what lies behind it, as WCAG 2 reckons. Below 4.5 it is told; text
# of 24 px, or 18.7 px bold, may have 3.
_CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const channels = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255];
  };
  const light = ([r, g, b]) => {
    const part = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
  const behind = (node) => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) layers.push(channels(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const faults = [];
  let count = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.data.trim(), node = walker.currentNode.parentElement;
    if (!text || node.closest(".unseen, [aria-hidden=true], noscript")) continue;
    if (!node.checkVisibility({ visibilityProperty: true })) continue;
    const style = getComputedStyle(node), back = behind(node), front = over(channels(style.color), back);
    const [high, low] = [light(front), light(back)].sort((a, b) => b - a), ratio = (high + 0.05) / (low + 0.05);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    count += 1;
    const where = `${text.slice(0, 40)} in ${node.tagName}.${node.className}`;
    if (ratio < (large ? 3 : 4.5)) faults.push(`${ratio.toFixed(2)}: ${where}`);
  }
  return [count, faults];
}"""


def contrast_faults(page: Page) -> list[str]:
    """Texts that are hard to read; some text must be there."""
    count, faults = page.evaluate(_CONTRAST)
    assert count > 3
    assert isinstance(faults, list)
    return faults


def sideways(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
