#!/bin/sh
# Starts the databases of databases.yaml in three regions, and ends them with Ctrl-C: docs/isolation.md. Each region is a network
# namespace of this machine, and geobench wan delays what one receives from another, as the network profile aws has it.
#
#   servers.sh FOLDER
#
# It needs Linux, root, and in the PATH: ip and setpriv (iproute2, util-linux), geobench (of a release, or built with -tags full), PostgreSQL's
# initdb and postgres, MariaDB's mariadbd, and etcd; MariaDB's system tables and Galera's library are looked for where Debian has them. FOLDER must not be there, and is removed in the end. Nothing is reached from
# outside of the namespaces; clients run in geobench-clients.
set -eu
[ $# -eq 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
dir=$1
mkdir -m 755 "$dir"
clients=geobench-clients
regions="us-east-1 eu-west-1 ap-northeast-1"
pids=
address() { case $1 in us-east-1) echo 10.198.0.1 ;; eu-west-1) echo 10.198.0.2 ;; *) echo 10.198.0.3 ;; esac; }
inside() { region=$1; shift; ip netns exec "geobench-$region" "$@"; }
start() { # start REGION LOG PROGRAM...
	log=$dir/$2.log
	region=$1
	shift 2
	ip netns exec "geobench-$region" "$@" >"$log" 2>&1 &
	pids="$! $pids"
}
as_nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"
finish() {
	trap - EXIT INT TERM
	for pid in $pids; do kill "$pid" 2>/dev/null || :; done
	wait
	for r in $regions; do ip netns del "geobench-$r" || :; done
	ip netns del $clients || :
	rm -rf "$dir"
}
trap finish EXIT
trap 'exit 0' INT TERM

ip netns add $clients
ip -n $clients link set lo up
ip -n $clients link add wan type bridge
ip -n $clients address add 10.198.0.254/24 dev wan
ip -n $clients link set wan up
n=0
for r in $regions; do
	n=$((n + 1))
	ip netns add "geobench-$r"
	ip link add eth0 netns "geobench-$r" type veth peer name "r$n" netns $clients
	ip -n $clients link set "r$n" master wan up
	ip -n "geobench-$r" link set lo up
	ip -n "geobench-$r" address add "$(address "$r")/24" dev eth0
	ip -n "geobench-$r" link set eth0 up
done
peers='"peers": [{"address": "10.198.0.1", "region": "us-east-1"}, {"address": "10.198.0.2", "region": "eu-west-1"}, {"address": "10.198.0.3", "region": "ap-northeast-1"}]'
us_eu='"delayMicros": 34800' us_ap='"delayMicros": 74850' eu_ap='"delayMicros": 101150'
for r in $regions; do
	case $r in
	us-east-1) links="{\"from\": \"eu-west-1\", $us_eu}, {\"from\": \"ap-northeast-1\", $us_ap}" ;;
	eu-west-1) links="{\"from\": \"us-east-1\", $us_eu}, {\"from\": \"ap-northeast-1\", $eu_ap}" ;;
	*) links="{\"from\": \"us-east-1\", $us_ap}, {\"from\": \"eu-west-1\", $eu_ap}" ;;
	esac
	echo "{\"generation\": 1, \"region\": \"$r\", \"seed\": 1, $peers, \"links\": [$links]}" >"$dir/wan-$r.json"
	start "$r" "wan-$r" geobench wan --config "$dir/wan-$r.json" --pod "$r"
done

# PostgreSQL, in the first region.
mkdir "$dir/postgres"
chown 65534:65534 "$dir/postgres"
echo bench >"$dir/password"
(cd "$dir" && $as_nobody initdb -D "$dir/postgres" -U bench --pwfile="$dir/password" --auth=scram-sha-256 --encoding=UTF8 --locale=C >"$dir/initdb.log")
echo "host all all 10.198.0.0/24 scram-sha-256" >>"$dir/postgres/pg_hba.conf"
start us-east-1 postgres $as_nobody postgres -D "$dir/postgres" -c listen_addresses=10.198.0.1 -c unix_socket_directories="$dir/postgres"

# MariaDB in the first region, and Galera in all. The nodes begin with the same data, so that none has to be sent any.
new=$dir/mariadb-new
mkdir "$new"
chown 65534:65534 "$new"
small="--no-defaults --innodb-log-file-size=8M --innodb-buffer-pool-size=64M --skip-name-resolve"
{ # a statement on each line, as --bootstrap has it
	printf '%s;\n' "create database mysql" "use mysql" "set @auth_root_socket=NULL"
	cat /usr/share/mysql/mysql_system_tables.sql /usr/share/mysql/mysql_system_tables_data.sql
	printf '%s;\n' "flush privileges" "create database bench" "create user bench@'%' identified by 'bench'" "grant all on bench.* to bench@'%'" "grant process on *.* to bench@'%'"
} >"$dir/mariadb.sql"
$as_nobody mariadbd $small --bootstrap --datadir="$new" <"$dir/mariadb.sql" >"$dir/bootstrap.log" 2>&1 || { cat "$dir/bootstrap.log" >&2; exit 1; }
node() { # node NAME REGION JOIN
	ip=$(address "$2")
	start "$2" "$1" $as_nobody env PATH="$dir:$PATH" mariadbd $small --datadir="$dir/$1" --bind-address="$ip" --port=3307 --pid-file="$dir/$1/pid" --socket="$dir/$1/socket" \
		--binlog-format=ROW --innodb-autoinc-lock-mode=2 --wsrep-on=ON --wsrep-provider=/usr/lib/galera/libgalera_smm.so --wsrep-cluster-name=geobench \
		--wsrep-cluster-address="$3" --wsrep-node-name="$1" --wsrep-node-address="$ip" --wsrep-sst-method=same \
		--wsrep-provider-options="gmcast.listen_addr=tcp://$ip:4567;ist.recv_addr=$ip:4568;gcache.size=8M"
	until grep -q "Synchronized with group" "$dir/$1.log"; do
		kill -0 "${pids%% *}" || { cat "$dir/$1.log" >&2; exit 1; }
		sleep 0.2
	done
}
for name in mariadb galera; do cp -a "$new" "$dir/$name"; done
# A cluster of one node writes the state that all begin with.
node galera us-east-1 gcomm://
kill "${pids%% *}"
wait "${pids%% *}" || :
state=$(sed -n 's/^uuid: *//p' "$dir/galera/grastate.dat"):$(sed -n 's/^seqno: *//p' "$dir/galera/grastate.dat")
printf '#!/bin/sh\ncase "$*" in\n*joiner*) echo "ready none"; echo "%s" ;;\n*) echo "done %s" ;;\nesac\n' "$state" "$state" >"$dir/wsrep_sst_same"
chmod 755 "$dir/wsrep_sst_same"
for r in $regions; do cp -a "$dir/galera" "$dir/galera-$r"; done
start us-east-1 mariadb $as_nobody mariadbd $small --datadir="$dir/mariadb" --bind-address=10.198.0.1 --port=3306 --pid-file="$dir/mariadb/pid" --socket="$dir/mariadb/socket"
join=gcomm://
for r in $regions; do
	node "galera-$r" "$r" "$join"
	join=gcomm://10.198.0.1:4567
done

# etcd, in all.
members=
for r in $regions; do members="$members,$r=http://$(address "$r"):2380"; done
for r in $regions; do
	ip=$(address "$r")
	start "$r" "etcd-$r" etcd --name="$r" --data-dir="$dir/etcd-$r" --listen-client-urls="http://$ip:2379" --advertise-client-urls="http://$ip:2379" \
		--listen-peer-urls="http://$ip:2380" --initial-advertise-peer-urls="http://$ip:2380" --initial-cluster="${members#,}" \
		--heartbeat-interval=250 --election-timeout=2500 --log-level=warn
done
echo "The databases run in $dir. Clients: ip netns exec $clients geobench ... ; Ctrl-C ends all."
wait
