package run

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/base/compress"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/ops/identity"
)

// manifestsKey is the key of a run's manifests in the ConfigMap that stores them.
const manifestsKey = "manifests.json.gz"

// manifests are the manifests with which a run was accepted. The result includes them. The cost and the verdict of the
// run depend on them, even if the objects are edited later.
type manifests struct {
	result.Manifests
	// Hash is the hash of the database's plan. Nodes with a different hash belong to a different database.
	Hash string `json:"hash"`
	// DatabaseGeneration is the generation of the GeoDatabase. ProfileName names the NetworkProfile of its network; it is
	// empty for an inline or built-in profile.
	DatabaseGeneration int64  `json:"databaseGeneration"`
	ProfileName        string `json:"profileName,omitempty"`
	// Mounted are the ConfigMaps that the database's pods mount.
	Mounted []database.Mounted `json:"mounted,omitempty"`
}

// takeManifests returns the manifests with which a run would start now.
func takeManifests(run *v1alpha1.BenchmarkRun, db *v1alpha1.GeoDatabase, plan *database.Plan) *manifests {
	return &manifests{
		Manifests: result.Manifests{Run: &run.Spec, Database: &db.Spec, Network: plan.Profile.Spec, ConfigMaps: database.DigestsOf(plan.Mounted)},
		Hash:      plan.Hash, DatabaseGeneration: db.Generation, ProfileName: plan.Profile.Name, Mounted: plan.Mounted,
	}
}

// keepManifests stores the manifests in an immutable ConfigMap, and their digest in the status, which only the operator
// writes. The digest is stored first. So a ConfigMap that already has the name is accepted only if its manifests match
// the digest. done is false until both are stored.
func (s *scope) keepManifests(ctx context.Context, m *manifests) (done bool, err error) {
	text, err := json.Marshal(m)
	if err != nil {
		return false, err
	}
	measured, err := (&result.Manifests{Run: &s.run.Spec, Database: s.declared, Network: m.Network}).MeasuredDigest()
	if err != nil {
		return false, err
	}
	if st, digest := &s.run.Status, identity.Digest(text); st.ManifestsDigest != digest || st.MeasuredDigest != measured {
		st.ManifestsDigest, st.MeasuredDigest = digest, measured
		return false, nil
	}
	packed, err := compress.Text(text)
	if err != nil {
		return false, err
	}
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: kube.ManifestsName(s.run), Namespace: s.run.Namespace, Labels: kube.RunLabels(s.run, kube.RoleSnapshot)},
		Immutable:  ptr.To(true), BinaryData: map[string][]byte{manifestsKey: packed},
	}
	if err := kube.EnsureCreated(ctx, s.Client, s.Live, s.run, cm); err != nil {
		return false, err
	}
	kept := &corev1.ConfigMap{}
	if err := s.Live.Get(ctx, client.ObjectKeyFromObject(cm), kept); err != nil {
		return false, err
	}
	if _, err := s.parseManifests(kept); err == nil {
		return true, nil
	}
	// The ConfigMap is from before the last edit, or another user created it.
	return false, client.IgnoreNotFound(s.Client.Delete(ctx, kept, client.Preconditions{UID: &kept.UID}))
}

func (s *scope) parseManifests(cm *corev1.ConfigMap) (*manifests, error) {
	text, err := compress.Unpack(cm.BinaryData[manifestsKey])
	if err != nil || identity.Digest(text) != s.run.Status.ManifestsDigest {
		return nil, troubled(result.ReasonSnapshotForged, "ConfigMap %s is not what the operator has written: its digest is not that of status.manifestsDigest", cm.Name)
	}
	m := &manifests{}
	return m, json.Unmarshal(text, m)
}

// readManifests returns the manifests with which the run started.
func (s *scope) readManifests(ctx context.Context) (*manifests, error) {
	cm := &corev1.ConfigMap{}
	err := s.Live.Get(ctx, client.ObjectKey{Namespace: s.run.Namespace, Name: kube.ManifestsName(s.run)}, cm)
	if apierrors.IsNotFound(err) {
		return nil, troubled(result.ReasonSnapshotForged, "ConfigMap %s, which the operator has written, is gone", kube.ManifestsName(s.run))
	}
	if err != nil {
		return nil, err
	}
	return s.parseManifests(cm)
}

// edited describes the objects that have changed since the run started. configMaps names the ConfigMaps among them
// whose contents have changed.
func (s *scope) edited(ctx context.Context, m *manifests) (out, configMaps []string, err error) {
	if s.db.Generation != m.DatabaseGeneration {
		out = append(out, fmt.Sprintf("GeoDatabase %s (generation %d, was %d)", s.db.Name, s.db.Generation, m.DatabaseGeneration))
	}
	profile, err := database.ResolveProfile(ctx, s.Live, s.db)
	switch {
	case kube.AsRefusal(err) != nil:
		out = append(out, fmt.Sprintf("NetworkProfile %s (it is gone)", m.ProfileName))
	case err != nil:
		return nil, nil, err
	case (m.ProfileName != "" || profile.Name != "") && !equality.Semantic.DeepEqual(profile.Spec, m.Network):
		out = append(out, "NetworkProfile "+cmp.Or(m.ProfileName, profile.Name))
	}
	configMaps, written, err := s.rewritten(ctx, m)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range configMaps {
		out = append(out, "ConfigMap "+name)
	}
	for _, name := range written {
		out = append(out, fmt.Sprintf("ConfigMap %s (it was written, and says what it did before)", name))
	}
	return out, configMaps, nil
}

// rewritten returns the mounted ConfigMaps whose contents have changed since the run started. written are ConfigMaps
// that were written again with the same contents.
func (s *scope) rewritten(ctx context.Context, m *manifests) (changed, written []string, err error) {
	now, err := database.FindMounted(ctx, s.Live, &v1alpha1.GeoDatabase{ObjectMeta: s.db.ObjectMeta, Spec: *m.Database})
	if err != nil {
		return nil, nil, err
	}
	for i, was := range m.Mounted {
		switch {
		case now[i].Digest != was.Digest:
			changed = append(changed, was.Name)
		case now[i].Version != was.Version:
			written = append(written, was.Name)
		}
	}
	return changed, written, nil
}

// noteEdits sets the condition ManifestsUnchanged. Edits of the database and its network do not affect a run, because
// its nodes still use the manifests from its start. An edited ConfigMap that pods mount ends the run. The mounted files
// change in all pods, and it is unknown which programs have read them again.
func (s *scope) noteEdits(ctx context.Context, m *manifests) error {
	edited, configMaps, err := s.edited(ctx, m)
	if err != nil {
		return err
	}
	if len(edited) == 0 {
		s.condition(v1alpha1.ConditionManifestsUnchanged, true, "Unchanged", "the database and its network are as they were when the run began")
		return nil
	}
	s.condition(v1alpha1.ConditionManifestsUnchanged, false, "Edited",
		fmt.Sprintf("edited during the run, which went on with what they said when it began: %s", strings.Join(edited, ", ")))
	if len(configMaps) == 0 {
		return nil
	}
	return troubled(result.ReasonManifestEdited, "edited during the run: ConfigMap %s, which pods of GeoDatabase %s mount; programs that read it anew ran with something else than others or before",
		strings.Join(configMaps, ", "), s.db.Name)
}

// checkIncarnation returns an error that stops the run if the database's nodes were not deployed from the manifests
// with which the run was accepted.
func (s *scope) checkIncarnation(ctx context.Context, current *database.Incarnation) error {
	m, err := s.readManifests(ctx)
	if err != nil || current.Hash == m.Hash {
		return err
	}
	edited, _, err := s.edited(ctx, m)
	if err != nil {
		return err
	}
	what := "it may have been edited and edited back, or the operator's image has changed"
	if len(edited) > 0 {
		what = "edited in the meantime: " + strings.Join(edited, ", ")
	}
	return troubled(result.ReasonManifestEdited, "GeoDatabase %s was deployed with other manifests than those that the run was let in with; %s; run it again", s.db.Name, what)
}
