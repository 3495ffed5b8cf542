"""`ottla completion`: the script that makes a shell complete ottla's commands.

click makes the scripts. They ask `ottla` itself, with an environment variable set, for what fits.
"""

import click
from click.shell_completion import get_completion_class

COMPLETE_VARIABLE = "_OTTLA_COMPLETE"


@click.command
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell.

    \b
      bash  ottla completion bash > ~/.local/share/bash-completion/completions/ottla
      zsh   ottla completion zsh > "${fpath[1]}/_ottla"
      fish  ottla completion fish > ~/.config/fish/completions/ottla.fish
    """
    from ottla.cli.main import root

    completer = get_completion_class(shell)
    if completer is None:
        raise click.UsageError(f"No completion is known for {shell}.")
    click.echo(completer(root, {}, "ottla", COMPLETE_VARIABLE).source())
