"""CephFS through ceph-fuse: a monitor, a manager, a metadata server and two stores, without replicas."""

from __future__ import annotations

import json
import subprocess
import uuid
from pathlib import Path

from file_systems.served import ADDRESS, READY_S_MAX, ServedFileSystem, kill, wait_until

STORES = 2
DISK_BYTES = 16 << 30  # of a sparse file

SETTINGS = """[global]
fsid = {fsid}
mon_host = v2:{address}:3300
mon_initial_members = a
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
public_network = {address}/32
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_size_one = true
mon_warn_on_pool_no_redundancy = false
osd_crush_chooseleaf_type = 0
osd_memory_target = 939524096
osd_heartbeat_grace = 6
bluestore_block_size = {disk}
bluestore_block_create = true
run_dir = {folder}/run
admin_socket = {folder}/run/$name.$pid.asok
pid_file =
log_file = {folder}/$name.log
keyring = {folder}/keyring
mon_data = {folder}/mon
osd_data = {folder}/osd$id
mds_data = {folder}/mds
mgr_data = {folder}/mgr
"""


class CephFS(ServedFileSystem):
    """A store is an OSD whose disk is a sparse file."""

    name = "CephFS"
    layout = "ceph-fuse, two stores, objects of 4 MiB, no replica"
    tools = ("ceph", "ceph-mon", "ceph-mgr", "ceph-osd", "ceph-mds", "ceph-fuse")

    def version(self) -> str:
        return subprocess.run(["ceph-fuse", "--version"], capture_output=True, text=True).stdout.split()[2]

    def start(self) -> None:
        for name in ("run", "mon", "mds", "mgr", *(f"osd{number}" for number in range(STORES))):
            (self.folder / name).mkdir()
        self.file_of("keyring", "")
        fsid = str(uuid.uuid4())
        self.settings = self.file_of(
            "ceph.conf", SETTINGS.format(fsid=fsid, address=ADDRESS, folder=self.folder, disk=DISK_BYTES)
        )
        self.network.run("ceph-mon", "-c", self.settings, "--mkfs", "-i", "a", "--fsid", fsid)
        self.start_daemon("mon", "a")
        wait_until(lambda: self.tell("-s", check=False).returncode == 0, READY_S_MAX, "the monitor does not answer")
        self.start_daemon("mgr", "a")
        for number in range(STORES):
            disk = str(uuid.uuid4())
            self.tell("osd", "new", disk)
            self.network.run("ceph-osd", "-c", self.settings, "-i", str(number), "--mkfs", "--osd-uuid", disk)
        self.stores = [self.start_daemon("osd", str(number)) for number in range(STORES)]
        wait_until(lambda: self.stores_up() == STORES, READY_S_MAX, "the stores are not up")
        for pool in ("metadata", "data"):
            self.tell("osd", "pool", "create", pool, "8")
        self.tell("fs", "new", "v", "metadata", "data")
        self.start_daemon("mds", "a")
        wait_until(lambda: "up:active" in self.tell("mds", "stat").stdout, READY_S_MAX, "no metadata server is active")

    def start_daemon(self, kind: str, name: str) -> subprocess.Popen[bytes]:
        return self.network.start(
            f"ceph-{kind}", "-c", self.settings, "-i", name, "-f", log=self.folder / f"{kind}{name}.out"
        )

    def tell(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.network.run("ceph", "-c", self.settings, "--connect-timeout", "10", *words, check=check)

    def stores_up(self) -> int:
        told = self.tell("osd", "stat", "--format", "json", check=False)
        return json.loads(told.stdout)["num_up_osds"] if told.returncode == 0 else 0

    def mount_command(self, place: Path) -> list[str | Path]:
        return ["ceph-fuse", "-c", self.settings, "-n", "client.admin", place]

    def kill_store(self) -> None:
        kill(self.stores[1])
        # The other store and the clients notice the end at once, by their connections. The map follows.
        wait_until(lambda: self.stores_up() == STORES - 1, READY_S_MAX, "the killed store still counts as up")

    def return_store(self) -> None:
        self.stores[1] = self.start_daemon("osd", "1")
        wait_until(lambda: self.stores_up() == STORES, READY_S_MAX, "the killed store is not up again")
