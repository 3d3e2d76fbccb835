"""Makes the pictures of docs/guide/page.md: `python -m tests.page.pictures`, from the root.

A daemon with example runs is opened in Chromium. It takes two minutes.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.conftest import PROGRAM, ROOT, Cluster, wait_until
from tests.page.conftest import CHROMIUM, FLAGS, Tab
from tests.page.test_views import CHART_WAITS

FOLDER = ROOT / "docs" / "guide" / "pictures"

TRAIN = """
import argparse, math, os, random, time, lockstep
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--steps", type=int, default=600)
parser.add_argument("--pause", type=float, default=0)
parser.add_argument("--fails-at", type=int)
given = parser.parse_args()
rank = int(os.environ["RANK"])
noise = random.Random(rank)
best = 2.2 + 0.35 * abs(math.log10(given.lr / 6e-4))
for step in range(given.steps):
    if step == given.fails_at and rank == 2:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    share = step * (given.lr / 6e-4) ** 0.3 / 110
    loss = best + 6.8 * math.exp(-share) + noise.gauss(0, 0.05)
    norm = 1 + 3 * math.exp(-share) + abs(noise.gauss(0, 0.12)) + (rank == 3) * 0.4
    lockstep.log({"train/loss": loss, "train/grad_norm": norm}, step=step)
    if rank == 0:
        lockstep.log({"speed/tokens_per_second": noise.gauss(118_000, 900)}, step=step)
        lockstep.progress(step + 1, given.steps)
        if step % 25 == 24:
            lockstep.log({"eval/loss": loss + 0.06}, step=step)
            print(f"step {step + 1}: loss {loss:.3f}, norm {norm:.2f}", flush=True)
    time.sleep(given.pause)
"""
MEETS = f"{PROGRAM} probe > /dev/null && touch $FOLDER/met-$RANK && sleep 600"


def main() -> None:
    with tempfile.TemporaryDirectory() as home, sync_playwright() as driver:
        cluster = Cluster(Path(home) / "home")
        cluster.serve("5x4")
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        try:
            fill(cluster, Path(home))
            tab = Tab(browser, cluster)
            tab.page.set_viewport_size({"width": 1360, "height": 760})
            tab.log_in(cluster.token())
            tab.sees("gpt-1b")
            take_all(tab)
            tab.close()
        finally:
            browser.close()
            cluster.close()


def fill(cluster: Cluster, folder: Path) -> None:
    """Ended runs first, then those that run, then those that wait for them."""
    (folder / "train.py").write_text(TRAIN)
    for project, minutes in (("nlp", 60_000), ("speech", 30_000), ("vision", 12_000)):
        cluster.ok("project", "add", project)
        cluster.ok("budget", "grant", project, str(minutes), "--until", "60d")
    users = {name: as_user(cluster, folder, name) for name in ("ann", "ben", "mia")}

    def train(user: str, project: str, name: str, options: str, words: str) -> str:
        chosen = ["--project", project, "--name", name, *options.split(), "--", "python"]
        return users[user].submit(*chosen, str(folder / "train.py"), *words.split())

    for lr in ("1e-4", "3e-4", "6e-4", "1e-3"):
        run = train("ann", "nlp", f"gpt-124m-{lr}", "-g 4", f"--lr {lr}")
        cluster.ended(run)
        cluster.ok("tag", run, "sweep=lr")
    fails = train("ben", "nlp", "gpt-350m", "-g 4", "--lr 6e-4 --fails-at 450 --pause 0.005")
    cluster.ended(fails)
    goes_on = "--lr 6e-4 --steps 9000 --pause 0.05"
    for run in (
        train("ben", "nlp", "gpt-350m-warmup", "-n 2 -g 4 --timeout 8h", goes_on),
        train("mia", "speech", "wav2vec-large", "-g 4 --timeout 5h", goes_on),
    ):
        cluster.running_ranks(run)
    options = ["--project", "speech", "--name", "probe", "-n", "2", "--timeout", "2h"]
    meets = ["--env", f"FOLDER={folder}", "--", "sh", "-c", MEETS]
    users["mia"].submit(*options, *meets)
    wait_until("the ranks have met", lambda: len(list(folder.glob("met-*"))) == 2, 300)
    train("mia", "speech", "conformer", "-n 2 -g 4 --timeout 4h", goes_on)
    train("ann", "nlp", "gpt-1b", "-n 4 -g 4 --timeout 12h", goes_on)


def as_user(cluster: Cluster, folder: Path, name: str) -> Cluster:
    """The same daemon, called by a new user who is a member of all projects."""
    cluster.ok("user", "add", name)
    for project in ("nlp", "speech", "vision"):
        cluster.ok("project", "member", project, name, "--role", "member")
    token = folder / f"token-{name}"
    token.touch(mode=0o600)
    token.write_text(cluster.ok("token", "create", "--user", name).split()[-1])
    other = Cluster(cluster.home)
    other.environment |= {"LOCKSTEP_URL": cluster.url(), "LOCKSTEP_TOKEN_FILE": str(token)}
    return other


def take_all(tab: Tab) -> None:
    columns = "name,state,reason,progress,curve:train/loss,running,devices,user"
    take(tab, "runs", f"/?columns={columns}")
    take(tab, "run", "/runs/nlp/6")
    take(tab, "compare", "/compare?runs=nlp/1,nlp/2,nlp/3,nlp/4")
    take(tab, "logs", "/runs/nlp/5/logs")
    take(tab, "flight", "/runs/speech/2/flight")
    tab.page.emulate_media(color_scheme="dark")
    take(tab, "cluster", "/cluster?color=user")
    take(tab, "budget", "/budget?project=nlp")
    tab.go("/submit")
    for label, text in (
        ("Name", "conformer-xl"),
        ("Command", "python train.py --lr 3e-4"),
        ("Folder in which the ranks start", "/home/mia/speech"),
        ("Nodes", "2"),
        ("Devices a node", "4"),
        ("Time limit", "12h"),
    ):
        tab.page.get_by_label(label).first.fill(text)
    tab.page.get_by_label("Project").select_option("speech")
    tab.sees("in the queue")
    save(tab, "submit")


def take(tab: Tab, name: str, path: str) -> None:
    tab.go(path)
    tab.sees("Live")
    wait_until("charts have points", lambda: not tab.page.evaluate(CHART_WAITS))
    save(tab, name)


def save(tab: Tab, name: str) -> None:
    tab.page.wait_for_timeout(1_000)  # for the curves in rows
    tab.page.screenshot(path=FOLDER / f"page-{name}.png")


if __name__ == "__main__":
    main()
