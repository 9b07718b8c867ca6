package etcd

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/bench/workload"
)

// UserVariable and PasswordVariable are the environment variables that contain the credentials if there is no Secret.
// etcdctl reads the same variables.
const (
	UserVariable     = "ETCDCTL_USER"
	PasswordVariable = "ETCDCTL_PASSWORD"
)

// lockTTL is the time after which a lock expires if its run has stopped without releasing it.
const lockTTL = 15 * time.Second

// dialect implements sqltarget.Dialect.
type dialect struct {
	server  sqltarget.Server
	options Options
	keys    keys
	tls     map[sqltarget.Endpoint]*tls.Config
	shared  shared
}

// Open opens a database: see sqltarget.Open.
func Open(ctx context.Context, t *geo.Topology, s sqltarget.Server, o Options, session string) (sqltarget.Database, error) {
	d, err := newDialect(&s, &o)
	if err != nil {
		return nil, err
	}
	db, err := sqltarget.Open(ctx, t, s, o.Options, d, session)
	if err != nil {
		return nil, err
	}
	l, err := d.lead(ctx, o.Leader)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	l.Database = db
	return l, nil
}

// Join joins a database that another process has opened: see sqltarget.Join.
func Join(ctx context.Context, t *geo.Topology, s sqltarget.Server, o Options, session string, region geo.Region) (target.Target, time.Duration, error) {
	d, err := newDialect(&s, &o)
	if err != nil {
		return nil, 0, err
	}
	return sqltarget.Join(ctx, t, s, o.Options, d, session, region)
}

func newDialect(s *sqltarget.Server, o *Options) (*dialect, error) {
	if s.User == "" {
		// etcdctl also accepts user:password in this variable
		user, password, _ := strings.Cut(os.Getenv(UserVariable), ":")
		s.User = user
		if s.Password == "" {
			s.Password = password
		}
		if s.Password == "" {
			s.Password = os.Getenv(PasswordVariable)
		}
	}
	switch {
	case s.Database != "":
		return nil, sqltarget.Wrong(sqltarget.DatabaseField, s.Database, "etcd has no databases: leave it out, and tell runs apart by the parameter %s", prefixParameter)
	// A user without a password cannot authenticate. Without a user, no password is needed.
	case s.User != "" && s.Password == "":
		return nil, sqltarget.Wrong(sqltarget.SecretField, "", "there is no password for user %s: give a Secret with the keys username and password, or set %s and %s", s.User, UserVariable, PasswordVariable)
	}
	d := &dialect{server: *s, options: *o, keys: keysOf(o.Place), tls: map[sqltarget.Endpoint]*tls.Config{}}
	d.shared.clients = map[sqltarget.Endpoint]*used{}
	for _, e := range s.Endpoints {
		host, _, err := net.SplitHostPort(e.Address)
		if err != nil {
			return nil, sqltarget.Wrong(s.Field(e), e.Address, "cannot be connected to: %v", err)
		}
		if d.tls[e], err = sqltarget.TLSConfig(s, host, o.TLS); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// failFast makes requests fail while no server answers at the endpoint. By default, etcd's client waits for a server,
// so transactions would hang until the member recovers instead of being refused.
func failFast(ctx context.Context, method string, request, answer any, c *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	return invoke(ctx, method, request, answer, c, append(options, grpc.WaitForReady(false))...)
}

// client opens a client for an endpoint. The client does not retry requests, because retries would hide the failures
// that a run measures.
func (d *dialect) client(e sqltarget.Endpoint) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: []string{e.Address}, DialTimeout: sqltarget.ConnectWithin, TLS: d.tls[e], Username: d.server.User, Password: d.server.Password,
		Logger: zap.NewNop(), MaxUnaryRetries: 1,
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(failFast)},
	})
}

// conn implements sqltarget.Conn.
type conn struct {
	*clientv3.Client
	mark string
	// lease is the lock's lease, or 0 if this connection does not have the lock. lost is closed when the lease is lost;
	// it is nil without a lease.
	lease clientv3.LeaseID
	lost  <-chan struct{}
}

// Ping implements sqltarget.Conn. The member answers from its local state.
func (c *conn) Ping(ctx context.Context) error {
	_, err := c.Get(ctx, c.mark, clientv3.WithSerializable(), clientv3.WithCountOnly())
	return err
}

// Broken implements sqltarget.Conn. The client reconnects by itself, but it cannot recover a lost lock.
func (c *conn) Broken() bool {
	select {
	case <-c.lost:
		return true
	default:
		return false
	}
}

// Close implements sqltarget.Conn.
func (c *conn) Close() error {
	if c.lease != 0 {
		ctx, cancel := context.WithTimeout(context.Background(), sqltarget.CloseBound)
		defer cancel()
		// if the server does not answer, the lease expires by itself
		_, _ = c.Revoke(ctx, c.lease)
	}
	return c.Client.Close()
}

// probe checks that a server listens at an endpoint and, if TLS is configured, that the handshake succeeds.
func (d *dialect) probe(ctx context.Context, e sqltarget.Endpoint) error {
	ctx, cancel := context.WithTimeout(ctx, sqltarget.ConnectWithin)
	defer cancel()
	var dialer net.Dialer
	tcp, err := dialer.DialContext(ctx, "tcp", e.Address)
	if err != nil {
		return err
	}
	defer tcp.Close() //nolint:errcheck // nothing was sent
	if d.tls[e] == nil {
		return nil
	}
	return tls.Client(tcp, d.tls[e]).HandshakeContext(ctx)
}

// Name implements sqltarget.Dialect.
func (d *dialect) Name() string { return "etcd" }

// IsolationName implements sqltarget.Dialect.
func (d *dialect) IsolationName() string {
	return "optimistic, " + strings.ToLower(d.options.Isolation) + " reads"
}

// Messages implements sqltarget.Dialect.
func (d *dialect) Messages() string {
	if d.options.Interactive {
		return "each read alone, writes with the commit"
	}
	return "reads that are known beforehand together, writes with the commit"
}

// PlaceParameter implements sqltarget.Dialect.
func (d *dialect) PlaceParameter() string { return prefixParameter }

// PlaceWord implements sqltarget.Dialect.
func (d *dialect) PlaceWord() string { return "prefix" }

// Dial implements sqltarget.Dialect.
func (d *dialect) Dial(ctx context.Context, e sqltarget.Endpoint) (*conn, error) {
	// If no server listens, etcd's client retries until its deadline and returns a less specific error.
	if err := d.probe(ctx, e); err != nil {
		return nil, err
	}
	client, err := d.client(e)
	if err != nil {
		return nil, err
	}
	c := &conn{Client: client, mark: d.keys.mark}
	ctx, cancel := context.WithTimeout(ctx, sqltarget.ConnectWithin)
	defer cancel()
	if err := c.Ping(ctx); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return c, nil
}

// Explain implements sqltarget.Dialect.
func (d *dialect) Explain(ctx context.Context, e sqltarget.Endpoint, err error) error {
	o := &d.options
	switch {
	case errors.Is(err, rpctypes.ErrAuthFailed):
		return sqltarget.Wrong(sqltarget.SecretField, "", "%s does not let user %s in with this password: put the right ones into the Secret, or set the password by etcdctl user passwd %[2]s", e.Address, d.server.User)
	case errors.Is(err, rpctypes.ErrUserEmpty):
		return sqltarget.Wrong(sqltarget.SecretField, "", "%s asks who its users are: give a Secret with the keys username and password, or set %s and %s", e.Address, UserVariable, PasswordVariable)
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return d.denied(e)
	}
	ctx, cancel := context.WithTimeout(ctx, sqltarget.ConnectWithin)
	defer cancel()
	var dialer net.Dialer
	tcp, wrong := dialer.DialContext(ctx, "tcp", e.Address)
	if wrong != nil {
		return d.server.Unreachable(e, d.Name(), "listen-client-urls", wrong)
	}
	defer tcp.Close() //nolint:errcheck // nothing was sent
	field := sqltarget.ParameterField(sqltarget.TLSParameter)
	if d.tls[e] == nil {
		probe := tls.Client(tcp, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12})
		// A handshake that succeeds proves that the server expects TLS, which the options disable.
		if probe.HandshakeContext(ctx) == nil {
			return sqltarget.Wrong(field, o.TLS, "%s takes encrypted connections only: use tls: %s, or %s with ca.crt in the Secret", e.Address, sqltarget.TLSRequire, sqltarget.TLSVerifyFull)
		}
		return d.server.Unreachable(e, d.Name(), "listen-client-urls", err)
	}
	wrong = tls.Client(tcp, d.tls[e]).HandshakeContext(ctx)
	var untrusted *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	switch {
	case errors.As(wrong, &untrusted):
		return o.Untrusted(e, untrusted.Err)
	case errors.As(wrong, &plain), wrong != nil:
		return sqltarget.Wrong(field, o.TLS, "%s takes no encrypted connections (%v): start it with --cert-file, --key-file and https in --listen-client-urls, or use tls: %s if nobody listens on the way",
			e.Address, wrong, sqltarget.TLSDisable)
	// In TLS 1.3 the server rejects a missing client certificate after the handshake, so the error appears only at the
	// first request.
	case strings.Contains(err.Error(), "certificate required"):
		return sqltarget.Wrong(field, o.TLS, "%s asks clients for certificates (--client-cert-auth), which Geobench does not have: let it ask for users and passwords", e.Address)
	}
	return d.server.Unreachable(e, d.Name(), "listen-client-urls", err)
}

// denied returns the error for a user who may not use the keys below the prefix.
func (d *dialect) denied(e sqltarget.Endpoint) error {
	return sqltarget.Wrong(sqltarget.SecretField, "", "user %s may not read and write keys below %s at %s: etcdctl role grant-permission ROLE --prefix=true readwrite %[2]s, for a role that the user has",
		d.server.User, d.keys.all, e.Address)
}

// refused converts the error of a request into an error that names the responsible manifest field. It returns other
// errors unchanged.
func (d *dialect) refused(e sqltarget.Endpoint, err error) error {
	field := d.server.Field(e)
	switch {
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return d.denied(e)
	case errors.Is(err, rpctypes.ErrNoSpace):
		return sqltarget.Wrong(field, e.Address, "the cluster is out of space (alarm NOSPACE) and takes no writes: etcdctl compact and defrag, raise --quota-backend-bytes, then etcdctl alarm disarm")
	case errors.Is(err, rpctypes.ErrCorrupt):
		return sqltarget.Wrong(field, e.Address, "the cluster is corrupt (alarm CORRUPT) and takes no writes: replace the member that etcdctl alarm list names")
	case errors.Is(err, rpctypes.ErrNoLeader), errors.Is(err, rpctypes.ErrTimeout), errors.Is(err, rpctypes.ErrTimeoutDueToLeaderFail),
		errors.Is(err, rpctypes.ErrTimeoutDueToConnectionLost), errors.Is(err, context.DeadlineExceeded):
		return sqltarget.Wrong(field, e.Address, "this member has no leader or no majority (%v): see etcdctl endpoint status --cluster", err)
	}
	return err
}

// Look implements sqltarget.Dialect.
func (d *dialect) Look(ctx context.Context, c *conn, e sqltarget.Endpoint) (version, server string, err error) {
	ctx, cancel := context.WithTimeout(ctx, sqltarget.ConnectWithin)
	defer cancel()
	st, err := c.Status(ctx, e.Address)
	if err != nil {
		return "", "", d.refused(e, err)
	}
	if st.IsLearner {
		return "", "", sqltarget.Wrong(d.server.Field(e), e.Address, "this member is a learner, which answers no client: promote it (etcdctl member promote %x), or name another one", st.Header.MemberId)
	}
	// This linearizable read succeeds only if the member has a leader.
	if _, err := c.Get(ctx, d.keys.mark, clientv3.WithCountOnly()); err != nil {
		return "", "", d.refused(e, err)
	}
	// The server checks the number of comparisons before it evaluates them. This request therefore reveals whether the
	// server's limit is lower than MaxTxnOps.
	compares := make([]clientv3.Cmp, d.options.MaxTxnOps)
	for i := range compares {
		compares[i] = clientv3.Compare(clientv3.ModRevision(d.keys.barrier), ">", -1)
	}
	if _, err := c.Txn(ctx).If(compares...).Commit(); errors.Is(err, rpctypes.ErrTooManyOps) {
		return "", "", sqltarget.Wrong(sqltarget.ParameterField(maxTxnOpsParameter), strconv.Itoa(d.options.MaxTxnOps), "%s takes fewer in a request: say what its --max-txn-ops is, or raise that", e.Address)
	} else if err != nil {
		return "", "", d.refused(e, err)
	}
	return "etcd " + st.Version, fmt.Sprintf("%x/%x", st.Header.ClusterId, st.Header.MemberId), nil
}

// Left implements sqltarget.Dialect. Members do not limit the number of streams of a client, so Left returns a number
// that no run reaches.
func (d *dialect) Left(context.Context, *conn) (int, error) { return math.MaxInt32, nil }

// Lock implements sqltarget.Dialect. The lock is a key with a lease. Close revokes the lease; if the run stops without
// Close, the lease expires.
func (d *dialect) Lock(ctx context.Context, c *conn) (bool, error) {
	const patience, poll = 2 * time.Second, 50 * time.Millisecond
	e := d.server.Endpoints[0]
	lease, err := c.Grant(ctx, int64(lockTTL/time.Second))
	if err != nil {
		return false, d.refused(e, err)
	}
	c.lease = lease.ID
	for begin := time.Now(); ; {
		taken, err := c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(d.keys.lock), "=", 0)).Then(clientv3.OpPut(d.keys.lock, "", clientv3.WithLease(lease.ID))).Commit()
		if err != nil {
			return false, d.refused(e, err)
		}
		if taken.Succeeded {
			break
		}
		// A run that has just ended may still be revoking its lease, so wait a little before the lock counts as taken.
		if time.Since(begin) > patience {
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(poll):
		}
	}
	// The lock must outlive this call's context, which bounds only the opening of the database.
	answers, err := c.KeepAlive(context.WithoutCancel(ctx), lease.ID)
	if err != nil {
		return false, err
	}
	lost := make(chan struct{})
	go func() {
		for range answers { //nolint:revive // drain until the lease is lost
		}
		close(lost)
	}()
	c.lost = lost
	return true, nil
}

// Make implements sqltarget.Dialect. The keys below the prefix count as the table.
func (d *dialect) Make(ctx context.Context, c *conn, mark string) (made sqltarget.Made, err error) {
	there, err := d.Marked(ctx, c)
	if err != nil {
		return made, err
	}
	if there == "" {
		others, err := c.Get(ctx, d.keys.all, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(2))
		if err != nil {
			return made, err
		}
		for _, kv := range others.Kvs {
			// The lock was taken before Make and is below the prefix, too; any other key has another owner.
			if string(kv.Key) != d.keys.lock {
				return made, sqltarget.Wrong(sqltarget.ParameterField(prefixParameter), d.options.Place, "the key %q below it is not Geobench's, which would replace all that is there: use another prefix", kv.Key)
			}
		}
		made.Table = true
	} else if !strings.HasPrefix(there, sqltarget.Mark) {
		return made, sqltarget.Wrong(sqltarget.ParameterField(prefixParameter), d.options.Place, "the key %s is not Geobench's: use another prefix", d.keys.mark)
	}
	if _, err := c.Put(ctx, d.keys.mark, mark); err != nil {
		return sqltarget.Made{}, d.refused(d.server.Endpoints[0], err)
	}
	return made, nil
}

// Marked implements sqltarget.Dialect.
func (d *dialect) Marked(ctx context.Context, c *conn) (string, error) {
	r, err := c.Get(ctx, d.keys.mark)
	if err != nil || len(r.Kvs) == 0 {
		return "", err
	}
	return string(r.Kvs[0].Value), nil
}

// Drop implements sqltarget.Dialect. It deletes the mark last, because keys without a mark are not Geobench's to
// delete. The lock expires with its lease.
func (d *dialect) Drop(ctx context.Context, c *conn, _ bool) error {
	if err := d.Empty(ctx, c); err != nil {
		return err
	}
	// One transaction deletes both keys, so that no key remains without a mark.
	_, err := c.Txn(ctx).Then(clientv3.OpDelete(d.keys.barrier), clientv3.OpDelete(d.keys.mark)).Commit()
	return err
}

// Classify implements sqltarget.Dialect.
func (d *dialect) Classify(err error) target.Failure { return Classify(err) }

// Working implements sqltarget.Dialect. It writes the barrier and returns 0. A transaction is at the server only while
// it commits. The commits of clients that have disconnected were proposed through this member before the barrier, so
// the write of the barrier waits for these commits.
func (d *dialect) Working(ctx context.Context, c *conn) (int, error) {
	_, err := c.Put(ctx, d.keys.barrier, "")
	return 0, err
}

// Empty implements sqltarget.Dialect. It deletes in batches, because one request that deletes all rows would block the
// members for seconds.
func (d *dialect) Empty(ctx context.Context, c *conn) error {
	const some = 20_000 // as in Rows
	for _, prefix := range []string{d.keys.rows, d.keys.deletions} {
		for end := clientv3.GetPrefixRangeEnd(prefix); ; {
			r, err := c.Get(ctx, prefix, clientv3.WithRange(end), clientv3.WithKeysOnly(), clientv3.WithLimit(some))
			if err != nil {
				return err
			}
			if len(r.Kvs) == 0 {
				break
			}
			if _, err := c.Delete(ctx, prefix, clientv3.WithRange(string(r.Kvs[len(r.Kvs)-1].Key)+"\x00")); err != nil {
				return err
			}
		}
	}
	return nil
}

// Settle implements sqltarget.Dialect. Its linearizable read returns once the member has applied the rows, which were
// loaded through another member.
func (d *dialect) Settle(ctx context.Context, c *conn) error {
	_, err := c.Get(ctx, d.keys.mark)
	return err
}

// Waits implements sqltarget.Dialect. It returns false, because transactions take no locks.
func (d *dialect) Waits(context.Context, *conn, target.Connection) (bool, error) { return false, nil }

// CatchUp implements sqltarget.Dialect. A member that answers a linearizable read has applied all earlier commits.
func (d *dialect) CatchUp(ctx context.Context, c *conn) error { return d.Settle(ctx, c) }

// AppendRow implements sqltarget.Dialect. It appends the lengths of key and value as uvarints, then the key and the
// value.
func (d *dialect) AppendRow(b []byte, k txn.Key, value []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(k)))
	b = binary.AppendUvarint(b, uint64(len(value)))
	return append(append(b, k...), value...)
}

// Copy implements sqltarget.Dialect. Each request loads many rows.
func (d *dialect) Copy(ctx context.Context, e sqltarget.Endpoint, chunks <-chan []byte) error {
	client, err := d.client(e)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // all rows are loaded, or a request has returned its error
	// The other half of the limit leaves room for prefixes and the encoding of the operations.
	const most = maxRequestBytes / 2
	var ops []clientv3.Op
	bytes := 0
	send := func() error {
		if len(ops) == 0 {
			return nil
		}
		_, err := client.Txn(ctx).Then(ops...).Commit()
		ops, bytes = ops[:0], 0
		return err
	}
	for rows := range chunks {
		for len(rows) > 0 {
			k, n := binary.Uvarint(rows)
			v, m := binary.Uvarint(rows[n:])
			rows = rows[n+m:]
			if len(ops) == d.options.MaxTxnOps || bytes+int(k+v) > most {
				if err := send(); err != nil {
					return err
				}
			}
			ops = append(ops, clientv3.OpPut(d.keys.row(txn.Key(rows[:k])), string(rows[k:k+v])))
			bytes += int(k + v)
			rows = rows[k+v:]
		}
		if err := send(); err != nil {
			return err
		}
	}
	return nil
}

// Rows implements sqltarget.Dialect. It reads pages of the same revision.
func (d *dialect) Rows(ctx context.Context, c *conn, f func(k, value []byte)) error {
	const some = 20_000 // large, because etcd counts the rest of the range for each request
	options := []clientv3.OpOption{clientv3.WithRange(clientv3.GetPrefixRangeEnd(d.keys.rows)), clientv3.WithLimit(some)}
	for from := d.keys.rows; ; {
		r, err := c.Get(ctx, from, options...)
		if err != nil {
			return err
		}
		if from == d.keys.rows {
			// The member now has this revision, so it can answer the other pages from its local state.
			options = append(options, clientv3.WithRev(r.Header.Revision), clientv3.WithSerializable())
		}
		for _, kv := range r.Kvs {
			f(kv.Key[len(d.keys.rows):], kv.Value)
		}
		if !r.More {
			return nil
		}
		from = string(r.Kvs[len(r.Kvs)-1].Key) + "\x00"
	}
}

// sampled is the number of transactions per region that Fits inspects.
const sampled = 500

// Fits implements sqltarget.Fitter. It checks all rows, and a sample of transactions, against etcd's limits for a
// request. It cannot predict the reads of groups; a transaction whose reads exceed a limit is refused when it commits.
func (d *dialect) Fits(t *geo.Topology, data target.Dataset) error {
	w := data.Workload
	field := "spec.workload." + w.Name()
	var largest [txn.MaxTable + 1]int
	layout := t.Whole(0)
	most, at := 0, txn.Key("")
	err := workload.Fill(w, &layout, 0, func(k txn.Key, value []byte) {
		n := len(k) + len(value)
		largest[k.Table()] = max(largest[k.Table()], n)
		if n > most {
			most, at = n, k
		}
	})
	if err != nil {
		return err
	}
	if most > maxRequestBytes/2 {
		return sqltarget.Wrong(field, "", "the row %s has %d bytes, and etcd is made for small ones: it takes requests of 1.5 MiB in all; take rows below %d bytes", w.KeyName(at), most, maxRequestBytes/2)
	}
	for region := range t.Regions {
		g := w.NewGenerator(workload.GeneratorConfig{Region: geo.Region(region), Clients: 1, RegionClients: 1, Stream: uint32(region)})
		for i := range uint64(sampled) {
			tx := txn.Transaction{ID: txn.MakeID(1, i+1)}
			request := g.Next(0, 0, &tx)
			reads, writes, bytes := 0, 0, 0
			for _, a := range tx.Accesses {
				if a.Mode&txn.Read != 0 && !a.Key.Ordered() {
					reads++
				}
				if a.Mode&txn.Write != 0 {
					writes++
					// The size of a write is not known yet, so assume the size of the largest loaded row of the table.
					bytes += largest[a.Key.Table()]
				}
			}
			name := w.Types()[request.Type]
			// A read-only transaction commits without comparisons, so the limit does not apply to it.
			if ops := d.options.MaxTxnOps; writes > 0 && reads > ops {
				return sqltarget.Wrong(field, "", "%s reads %d rows and writes, and etcd compares at most %d in a request: let it use fewer rows, or raise the servers' --max-txn-ops and the parameter %s",
					name, reads, ops, maxTxnOpsParameter)
			}
			if bytes > maxRequestBytes {
				return sqltarget.Wrong(field, "", "%s writes %d rows of up to %d bytes in all, and etcd takes requests of 1.5 MiB: let it write fewer or smaller rows", name, writes, bytes)
			}
			// The generator needs an outcome before it generates the client's next transaction.
			g.Done(0, txn.Outcome{ID: tx.ID, Status: txn.Refused})
		}
	}
	return nil
}
