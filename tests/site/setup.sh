#!/bin/sh
# Install what tests of the audit pages need: node, Chromium and two packages of npm.
# What cannot be installed is said, and the tests that need it are skipped.
cd "$(dirname "$0")" || exit 1

wanted=
command -v node >/dev/null && command -v npm >/dev/null || wanted="nodejs npm"
command -v chromium >/dev/null || wanted="$wanted chromium"
if [ -n "$wanted" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $wanted >/dev/null ||
            echo "note: could not install $wanted"
    else
        echo "note: missing here and not installed without the right to:$wanted"
    fi
fi
if [ node_modules/.package-lock.json -nt package-lock.json ]; then
    exit 0
fi
npm ci --silent >/dev/null || echo "note: could not install the packages in tests/site/package.json"
exit 0
