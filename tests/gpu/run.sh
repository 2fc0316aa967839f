#!/usr/bin/env bash
# Tests and measures on this machine's GPU what DIR holds (default: where this script lies): conformance,
# the device's own tests, each kernel under compute-sanitizer, the measurements, a training. Under five
# minutes on one H100. Ends with one line a part, and 1 when a part was red.
set -uo pipefail
dir=${1:-$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")}
out=${OUT:-$dir}
[ ! -d "$dir/lib" ] || export LD_LIBRARY_PATH="$dir/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
red=0 lines=()

# part NAME SECONDS COMMAND...
part() {
  local name=$1 limit=$2 begin=$SECONDS status=0
  shift 2
  echo "== $name"
  timeout "$limit" "$@" || status=$?
  if [ $status -eq 0 ]; then
    lines+=("ok   $name ($((SECONDS - begin)) s)")
  else
    lines+=("RED  $name: exit code $status ($((SECONDS - begin)) s)")
    red=1
  fi
}

command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
part conformance 90 "$dir/tests/gpu"
part faults 60 "$dir/tests/gpu_faults"
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -n 1)
if [ -n "$sanitizer" ]; then
  export TROUPE_GPU_QUICK=1
  part memcheck 90 "$sanitizer" --tool memcheck --error-exitcode 9 --print-limit 20 \
    "$dir/tests/gpu" -tce="*memory beyond*,*group of one*"
  part racecheck 90 "$sanitizer" --tool racecheck --error-exitcode 9 --print-limit 20 \
    "$dir/tests/gpu" -tce="*memory beyond*,*group of one*"
  unset TROUPE_GPU_QUICK
else
  lines+=("--   memcheck, racecheck: there is no compute-sanitizer here")
fi
part measurements 120 "$dir/bench/gpu_overlap" --json "$out/gpu_overlap.json"
[ ! -x "$dir/examples/custom_kernel" ] || part custom_kernel 30 "$dir/examples/custom_kernel"
if [ -d "${TROUPE_DATA:-/usr/share/datasets/fashion-mnist}" ]; then
  part training 60 "$dir/troupe" train fashion_mnist --device gpu:0 --epochs 2 \
    --data "${TROUPE_DATA:-/usr/share/datasets/fashion-mnist}"
fi
printf '%s\n' "${lines[@]}"
exit $red
