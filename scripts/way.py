#!/usr/bin/env python3
"""What the way to another machine costs: the same cells here, over ssh and over adb, all on this
machine, in pairs of the same block, as ratios of their times.

    scripts/way.py [--pairs 25] [--program target/release/fathom] [--adbd DIRECTORY] [--out way.db]

A real sshd with keys of its own listens on loopback; with --adbd, which names what
`scripts/adbd.sh` has unpacked, a real adbd does, too (and `adb` is needed). All is in a network
namespace of its own, which needs root, as does the modelled eMMC that the cells run on. Each line
is a cell and phase: the median over the blocks of (time over that way / time here), with the
interval of order statistics that holds it with 95 %, for model time and for wall time. Exit code 1:
a run failed, or a median of model times is off by more than 3 %.
"""
import argparse, math, os, shutil, signal, socket, sqlite3, statistics, subprocess, sys, tempfile, time
from pathlib import Path

BAR = 0.03
EXPERIMENT = '''name = "way"
title = "What the way to another machine costs"
repeats = 25
[workload]
name = "mobibench-sql"
transactions = 200
tables = 1
phases = ["insert", "update"]
[engine]
name = "sqlite"
synchronous = "full"
[stack]
filesystem = "ext4"
size_mib = 64
device = "emmc-51"
[matrix]
"engine.journal_mode" = ["delete", "wal"]
'''

def sshd(place):
    """Starts the server; the client's configuration."""
    for name in ('host', 'user'):
        subprocess.run(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', place / name], check=True)
    os.makedirs('/run/sshd', exist_ok=True)
    (place / 'sshd_config').write_text(
        f'Port 2222\nListenAddress 127.0.0.1\nHostKey {place}/host\nAuthorizedKeysFile {place}/user.pub\n'
        'PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n'
        f'SetEnv XDG_CACHE_HOME={place}/cache FATHOM_STATE_DIR={place}/state-ssh\n')
    (place / 'config').write_text(
        f'Host board\n  HostName 127.0.0.1\n  Port 2222\n  User root\n  IdentityFile {place}/user\n'
        f'  IdentitiesOnly yes\n  UserKnownHostsFile {place}/known\n  StrictHostKeyChecking accept-new\n  LogLevel ERROR\n')
    program = shutil.which('sshd') or '/usr/sbin/sshd'
    server = subprocess.Popen([program, '-D', '-e', '-f', place / 'sshd_config'],
                              stdin=subprocess.DEVNULL, stderr=open(place / 'sshd.log', 'wb'))
    for _ in range(100):
        try:
            socket.create_connection(('127.0.0.1', 2222)).close()
            return server
        except OSError: time.sleep(0.1)
    server.kill()
    sys.exit(f'error: sshd did not come up: {(place / "sshd.log").read_text()}')

def adbd(packages, place):
    """Starts adbd and connects adb's own server to it."""
    library = f'{packages}/usr/lib/x86_64-linux-gnu'
    environment = dict(os.environ, ADB_PORT='5555', ANDROID_ROOT=f'{place}/system', HOME='/')
    log = open(place / 'adbd.log', 'wb')
    daemon = subprocess.Popen(
        [f'{library}/ld-linux-x86-64.so.2', '--library-path', f'{library}:{library}/android',
         f'{packages}/usr/lib/android-sdk/platform-tools/adbd'],
        env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    for _ in range(100):
        said = subprocess.run(['adb', 'connect', '127.0.0.1:5555'], capture_output=True, text=True).stdout
        if 'connected' in said: return daemon
        time.sleep(0.2)
    daemon.kill()
    sys.exit(f'error: adbd did not come up: {(place / "adbd.log").read_text()}')

def median(ratios):
    """The median and the order statistics that hold it with at least 95 % (binomial with 1/2)."""
    ratios = sorted(ratios)
    n, below, low = len(ratios), 0.0, 0
    for k in range(n):
        below += math.comb(n, k) / 2 ** n
        if below > 0.025: break
        low = k + 1
    # With fewer than six no two of them hold it with 95 %.
    if low == 0: return statistics.median(ratios), None, None
    return statistics.median(ratios), ratios[low - 1], ratios[n - low]

def rows(results):
    """(machine, journal mode, phase, block) → (model time, wall time), ns."""
    with sqlite3.connect(results) as database:
        return {(on, mode, phase, block): (model, wall) for on, mode, phase, block, model, wall in database.execute(
            "SELECT json_extract(axes, '$.on'), json_extract(axes, '$.\"engine.journal_mode\"'), p.phase, block, "
            "m.model_ns, p.wall_ns FROM run JOIN cell ON cell.id = run.cell JOIN phase p ON p.run = run.id "
            "JOIN phase_model m ON m.run = run.id AND m.phase = p.phase WHERE status = 'done'")}

def table(found):
    """Prints each median; the largest distance of one of model times from 1."""
    worst = 0.0
    shown = lambda at: f'{at[0]:.4f} [{at[1]:.4f}, {at[2]:.4f}]' if at[1] else f'{at[0]:.4f} [too few]'
    print(f'{"way":<6}{"journal":<9}{"phase":<8}{"pairs":>5}  {"model time over / here":<26}{"wall time over / here":<26}')
    for on, mode, phase in sorted({key[:3] for key in found if key[0] != 'local'}):
        pairs = [(there, found['local', mode, phase, block])
                 for (at, *rest, block), there in found.items()
                 if [at, *rest] == [on, mode, phase] and ('local', mode, phase, block) in found]
        model, wall = (median([there[i] / here[i] for there, here in pairs]) for i in (0, 1))
        worst = max(worst, abs(model[0] - 1))
        print(f'{on.split(":")[0]:<6}{mode:<9}{phase:<8}{len(pairs):>5}  {shown(model):<26}{shown(wall):<26}')
    return worst

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--pairs', type=int, default=25)
    parser.add_argument('--program', type=Path, default=Path('target/release/fathom'))
    parser.add_argument('--adbd', type=Path)
    parser.add_argument('--out', type=Path, default=Path('way.db'))
    parser.add_argument('--in-namespace', action='store_true', help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if os.geteuid() != 0: sys.exit('error: the network namespace and the modelled device need root')
    if not asked.program.is_file(): sys.exit(f'error: {asked.program} is not there: cargo build --release -p fathom')
    if asked.out.exists(): sys.exit(f'error: {asked.out} is there already')
    if not asked.in_namespace:
        os.execvp('unshare', ['unshare', '--net', '--', sys.executable, *sys.argv, '--in-namespace'])
    subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)
    children = []
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        (place / 'way.toml').write_text(EXPERIMENT)
        os.environ.update(FATHOM_SSH_CONFIG=f'{place}/config', ANDROID_ADB_SERVER_PORT='5938', HOME=made)
        machines = 'local,ssh:board'
        try:
            children.append(sshd(place))
            if asked.adbd:
                children.append(adbd(asked.adbd.resolve(), place))
                machines += f',adb:127.0.0.1:5555:{place}/phone'
            begin = time.monotonic()
            ended = subprocess.run([asked.program.resolve(), 'run', place / 'way.toml', '--on', machines,
                                    '--repeat', str(asked.pairs), '--out', asked.out.resolve(), '--quiet'])
            print(f'{asked.pairs} pairs in {time.monotonic() - begin:.0f} s, load {os.getloadavg()[0]:.1f}')
        finally:
            if asked.adbd: subprocess.run(['adb', 'kill-server'], capture_output=True)
            for child in children:
                child.send_signal(signal.SIGTERM)
                child.wait()
    if not asked.out.exists(): sys.exit(1)
    worst = table(rows(asked.out))
    print(f'The furthest median of model times is {worst:.1%} from 1; the bar is {BAR:.0%}.')
    sys.exit(ended.returncode or int(worst > BAR))

main()
