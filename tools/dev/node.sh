# build/node with the packages of npm that tests need, pinned in tests/oidc/provider/package-lock.json.
# Node itself is a Python package of tools/requirements.txt. Where npm's registry cannot be
# reached, the tests that need the packages are skipped.

install_node_packages() {
  local from=tests/oidc/provider stamp=build/node/.made-from made_from
  made_from="$($venv/bin/node --version) $(sha256sum $from/package-lock.json)"
  if [[ -f $stamp && $(<"$stamp") == "$made_from" ]]; then
    already "Node packages for tests"
    return
  fi
  step node "Installing Node packages for tests" npm_install_if_reachable $from build/node
  if [[ -d build/node/node_modules ]]; then
    echo "$made_from" >$stamp
  else
    echo "npm's registry did not answer (build/logs/node.log): the tests of OIDC are skipped"
  fi
}

npm_install_if_reachable() {
  npm_install "$@" || rm -rf "$2"/node_modules
}

# npm_install FROM INTO: the packages of the lock file in FROM. Their scripts do not run.
npm_install() {
  rm -rf "$2" && mkdir -p "$2" && cp "$1"/package.json "$1"/package-lock.json "$2" &&
    PATH=$PWD/$venv/bin:$PATH npm ci --prefix "$2" --ignore-scripts --no-audit --no-fund \
      --fetch-retries 2 --fetch-timeout 60000
}
