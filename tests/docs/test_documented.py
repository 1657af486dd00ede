from pathlib import Path

import pytest

from support.documented import Command, commands_in, simple


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("ringtrain status gpt -w   # until it is over", [("ringtrain", "status", "gpt", "-w")]),
        ("sudo A=1 .venv/bin/python bench/x.py --quick", [("python", "bench/x.py", "--quick")]),
        ("testbed/install-deps && testbed/cluster up", [("testbed/install-deps",), ("testbed/cluster", "up")]),
        ('export A="$(testbed/cluster kubeconfig)" PATH="$(testbed/fetch-tools):$PATH"',
         [("testbed/cluster", "kubeconfig"), ("testbed/fetch-tools",)]),
        ("kubectl get tj -A -o yaml > jobs.yaml", [("kubectl", "get", "tj", "-A", "-o", "yaml")]),
        ("for link in 10 25; do ringtrain advise --link ${link}Gbit; done",
         [("ringtrain", "advise", "--link", "10Gbit"), ("ringtrain", "advise", "--link", "25Gbit")]),
        ("kubectl get tj JOB -o jsonpath='{.spec.a}{\"\\n\"}'",
         [("kubectl", "get", "tj", "JOB", "-o", 'jsonpath={.spec.a}{"\\n"}')]),
        ("NAME   PHASE", []),
        ("that's no command", []),
    ],
)  # fmt: skip
def test_simple_commands_of_a_line(line: str, found: list[tuple[str, ...]]) -> None:
    assert simple(line) == found


def test_commands_of_a_page() -> None:
    page = Path("page.md")
    text = """\
Say `ringtrain doctor -n NS`, or `make`.

    helm upgrade \\
      --install r charts
    kubectl get tj
    NAME   PHASE

```yaml
ringtrain: no command
```

    $ ringtrain checkpoints ls x
    ringtrain checkpoints is not what is typed here

```sh
make test
```
"""
    assert list(commands_in(page, text)) == [
        Command(page, 1, ("ringtrain", "doctor", "-n", "NS"), inline=True),
        Command(page, 3, ("helm", "upgrade", "--install", "r", "charts")),
        Command(page, 5, ("kubectl", "get", "tj")),
        Command(page, 12, ("ringtrain", "checkpoints", "ls", "x")),
        Command(page, 16, ("make", "test")),
    ]
