#!/bin/sh
# Make .venv from the hash-pinned lock, unless it is there and still fits. Run by make.
set -u
python=$1
lock=envs/requirements.txt
log=.setup.log

fail() {
    echo "setup: $*" >&2
    exit 1
}

# An environment fits one lock, one package and one place on the disk.
wanted=$(pwd && cksum $lock pyproject.toml envs/setup.sh)
if [ -x .venv/bin/python ] && [ "$(cat .venv/complete 2>/dev/null)" = "$wanted" ]; then
    exit 0
fi

command -v "$python" >/dev/null 2>&1 ||
    fail "there is no $python here; install Python 3.11 to 3.14, or name one: make PYTHON=python3.12"
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) ||
    fail "$python does not run; install Python 3.11 to 3.14, or name one: make PYTHON=python3.12"
case $version in
3.11 | 3.12 | 3.13 | 3.14) ;;
*) fail "$python is Python $version, which is not 3.11 to 3.14; name another one: make PYTHON=python3.12" ;;
esac
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "$python lacks the module venv or ensurepip; on Debian and Ubuntu install python3-venv"

# Nothing half made stays behind.
abandon() {
    rm -rf .venv
    fail "$*; all that was said is in $log"
}
trap 'abandon interrupted' HUP INT TERM

# Print one entry of the lock, with its hashes.
entry() {
    awk -v name="$1==" 'index($0, name) == 1 { found = 1 } found { print } found && !/\\$/ { exit }' $lock
}

# Install with uv if there is one for this machine (seconds), else with pip (minutes).
install() {
    .venv/bin/uv pip install --python .venv/bin/python "$@" ||
        .venv/bin/python -m pip install "$@"
}

echo "Setting up .venv with Python $version (once; seconds to minutes) ..."
rm -rf .venv
"$python" -m venv .venv >$log 2>&1 || abandon "$python could not make .venv"
{
    entry setuptools && entry uv
} >.venv/first.txt
{
    .venv/bin/python -m pip install --only-binary :all: --require-hashes -r .venv/first.txt ||
        { entry setuptools >.venv/first.txt &&
            .venv/bin/python -m pip install --require-hashes -r .venv/first.txt; }
} >>$log 2>&1 || abandon "could not install from $lock (is there a network?)"
# What has no wheel is built with the setuptools just installed, not with one unpinned.
install --no-build-isolation --require-hashes -r $lock >>$log 2>&1 ||
    abandon "could not install all of $lock (is there a network, and for Python 3.14 a C compiler?)"
install --no-build-isolation --no-deps -e . >>$log 2>&1 ||
    abandon "could not install the package of this clone"
echo "$wanted" >.venv/complete
rm -f $log
