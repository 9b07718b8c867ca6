package main

// The types in this file are the part of Grafana's dashboard schema (kind Dashboard, version 41) that the dashboards
// use. make check-dashboards checks the output with Grafana's own SDK.

// Dashboard is a dashboard, stored in one file.
type Dashboard struct {
	UID           string      `json:"uid"`
	Title         string      `json:"title"`
	Description   string      `json:"description"`
	Tags          []string    `json:"tags"`
	Editable      bool        `json:"editable"`
	GraphTooltip  int         `json:"graphTooltip"`
	SchemaVersion int         `json:"schemaVersion"`
	Refresh       string      `json:"refresh"`
	Time          TimeRange   `json:"time"`
	Timezone      string      `json:"timezone"`
	Links         []Link      `json:"links"`
	Annotations   Annotations `json:"annotations"`
	Templating    Templating  `json:"templating"`
	Panels        []Panel     `json:"panels"`
}

// TimeRange is the initial time range of a dashboard.
type TimeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Link is a link to other dashboards.
type Link struct {
	Title       string   `json:"title"`
	Type        string   `json:"type"`
	Icon        string   `json:"icon"`
	Tooltip     string   `json:"tooltip"`
	Tags        []string `json:"tags"`
	AsDropdown  bool     `json:"asDropdown"`
	IncludeVars bool     `json:"includeVars"`
	KeepTime    bool     `json:"keepTime"`
	TargetBlank bool     `json:"targetBlank"`
}

// Annotations are bands and lines across all panels.
type Annotations struct {
	List []Annotation `json:"list"`
}

// Annotation is a query whose results are drawn as bands or lines.
type Annotation struct {
	Name            string     `json:"name"`
	Datasource      Datasource `json:"datasource"`
	Enable          bool       `json:"enable"`
	Hide            bool       `json:"hide"`
	IconColor       string     `json:"iconColor"`
	Expr            string     `json:"expr"`
	Step            string     `json:"step"`
	TitleFormat     string     `json:"titleFormat"`
	TagKeys         string     `json:"tagKeys"`
	UseValueForTime string     `json:"useValueForTime"`
}

// Datasource identifies the data source of a query.
type Datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// Templating contains the variables of a dashboard.
type Templating struct {
	List []Variable `json:"list"`
}

// Variable is a selection that users make at the top of a dashboard.
type Variable struct {
	Type        string      `json:"type"`
	Name        string      `json:"name"`
	Label       string      `json:"label"`
	Description string      `json:"description"`
	Datasource  *Datasource `json:"datasource,omitempty"`
	Query       any         `json:"query"`
	Definition  string      `json:"definition,omitempty"`
	Multi       bool        `json:"multi"`
	IncludeAll  bool        `json:"includeAll"`
	AllValue    string      `json:"allValue,omitempty"`
	Current     *Current    `json:"current,omitempty"`
	Refresh     int         `json:"refresh,omitempty"`
	Sort        int         `json:"sort,omitempty"`
	Regex       string      `json:"regex"`
}

// Current is the initial value of a variable.
type Current struct {
	Selected bool   `json:"selected"`
	Text     string `json:"text"`
	Value    string `json:"value"`
}

// VariableQuery is the query of a Prometheus variable.
type VariableQuery struct {
	Query string `json:"query"`
	RefID string `json:"refId"`
}

// Panel is a chart, a table or a heading.
type Panel struct {
	ID              int              `json:"id"`
	Type            string           `json:"type"`
	Title           string           `json:"title"`
	Description     string           `json:"description,omitempty"`
	Collapsed       *bool            `json:"collapsed,omitempty"` // only for headings
	GridPos         GridPos          `json:"gridPos"`
	Datasource      *Datasource      `json:"datasource,omitempty"`
	Targets         []Target         `json:"targets,omitempty"`
	FieldConfig     *FieldConfig     `json:"fieldConfig,omitempty"`
	Options         map[string]any   `json:"options,omitempty"`
	Transformations []Transformation `json:"transformations,omitempty"`
	Panels          []Panel          `json:"panels,omitempty"`
}

// GridPos is the position and size of a panel, in a grid of 24 columns and rows of 30 pixels.
type GridPos struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

// Target is a query of a panel.
type Target struct {
	RefID        string     `json:"refId"`
	Datasource   Datasource `json:"datasource"`
	Expr         string     `json:"expr"`
	LegendFormat string     `json:"legendFormat"`
	Format       string     `json:"format"`
	EditorMode   string     `json:"editorMode"`
	Instant      bool       `json:"instant"`
	Range        bool       `json:"range"`
	Exemplar     bool       `json:"exemplar"`
}

// FieldConfig sets the display of values.
type FieldConfig struct {
	Defaults  Field      `json:"defaults"`
	Overrides []Override `json:"overrides"`
}

// Field sets the display of one value.
type Field struct {
	Unit       string           `json:"unit,omitempty"`
	Decimals   *float64         `json:"decimals,omitempty"`
	Min        *float64         `json:"min,omitempty"`
	Max        *float64         `json:"max,omitempty"`
	NoValue    string           `json:"noValue,omitempty"`
	Color      *Color           `json:"color,omitempty"`
	Thresholds *Thresholds      `json:"thresholds,omitempty"`
	Mappings   []map[string]any `json:"mappings,omitempty"`
	Custom     map[string]any   `json:"custom,omitempty"`
}

// Color sets the colour of a series.
type Color struct {
	Mode string `json:"mode"`
}

// Thresholds are limits at which the colour of values changes or lines are drawn.
type Thresholds struct {
	Mode  string `json:"mode"`
	Steps []Step `json:"steps"`
}

// Step is the colour of values from Value upwards. The first step has no value.
type Step struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}

// Override changes how some of the series are displayed.
type Override struct {
	Matcher    Matcher    `json:"matcher"`
	Properties []Property `json:"properties"`
}

// Matcher selects series.
type Matcher struct {
	ID      string `json:"id"`
	Options any    `json:"options"`
}

// Property is a display property with its value.
type Property struct {
	ID    string `json:"id"`
	Value any    `json:"value"`
}

// Transformation transforms the result of a query.
type Transformation struct {
	ID      string         `json:"id"`
	Options map[string]any `json:"options"`
}
