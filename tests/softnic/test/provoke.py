#!/usr/bin/env python3
"""Every check of the model is provoked once: it must be counted, printed with what belongs to it, fail the run, and be the only
one; it can be turned off; it can abort. Arguments: marrow-softnic, the program that provokes."""
import subprocess
import sys

EXIT_CHECK, SIGABRT = 99, 6
FAULTS = {"source_changed": ["--faults", "rate=50"]}


def run(tool, program, check, *options):
    command = [tool, "run", "--nics", "2", *FAULTS.get(check, []), *options, "--", program, check]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def main():
    tool, program = sys.argv[1:3]
    listed = subprocess.run([tool, "checks"], capture_output=True, text=True, check=True).stdout
    checks = [line.split()[0] for line in listed.splitlines()]
    failed = 0
    for check in checks:
        status, output = run(tool, program, check)
        if status == 77:
            print(output.strip().splitlines()[-1])
            return 77
        others = [c for c in checks if c != check and f"check {c} failed" in output]
        wrong = []
        if status != EXIT_CHECK:
            wrong.append(f"exit status {status}")
        if f"softnic: check {check} failed: " not in output or f"marrow-softnic: check {check} failed " not in output:
            wrong.append("not reported")
        if others:
            wrong.append("also reported: " + ", ".join(others))
        status_off, output_off = run(tool, program, check, "--checks", "-" + check)
        if status_off != 0 or "check " + check in output_off:
            wrong.append(f"turned off, exit status {status_off}")
        if check == checks[0]:
            status_abort, _ = run(tool, program, check, "--checks", "abort")
            if status_abort != 128 + SIGABRT:
                wrong.append(f"with abort, exit status {status_abort}")
        print(f"{check}: {'; '.join(wrong) or 'ok'}")
        if wrong:
            print(output)
            failed += 1
    print(f"{len(checks)} checks, {failed} failed")
    return 1 if failed or not checks else 0


sys.exit(main())
